import { expect, test } from "vitest";
import type { TokenChain } from "../../../../services/x402-gateway/payment/chains.ts";
import { Settler } from "../../../../services/x402-gateway/payment/settle.ts";
import type { TokenAuthorization } from "../../../../shared/chain/payment-schemes.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { Payment } from "../../../../shared/payments/payment.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useTokenChain } from "../../../fixtures/token-chain.ts";
import { useChainReader } from "../../../shared/chain/chain-reader.ts";
import { illNode } from "../../../support/node-before.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);

function confirmWith(rpcUrl = fixture.rpcUrl) {
  const its = { chain: chainOf({ rpcUrl }), eventOrder: "used_first", wantsReceipt: true } as TokenChain;
  type Deps = ConstructorParameters<typeof Settler>[0];
  const deps: Pick<Deps, "chains" | "clock"> = { chains: { of: () => its }, clock: systemClock };
  const settler = new Settler(deps as Deps);
  return (payment: Payment, transaction: string) => settler.confirm(payment, transaction);
}

function paymentOf(its: TokenAuthorization, sinceBlock: bigint): Payment {
  const terms = {
    transfer_method: its.method,
    ...{ asset: its.asset, payer: its.from, pay_to: its.to, nonce: its.nonce, amount: String(its.value) },
    ...{ valid_after: String(its.validAfter), valid_before: String(its.validBefore) },
  };
  return { terms, sinceBlock } as Payment;
}

test("a settlement is confirmed by its receipt from the claim's block on, and by no earlier one", async () => {
  const its = await fixture.authorization();
  const transaction = await fixture.pay(its);
  const { number } = await fixture.block();
  const confirm = confirmWith();
  expect(await confirm(paymentOf(its, number), transaction)).toMatchObject({ transaction, position: 1 });
  expect(await confirm(paymentOf(its, number + 1n), transaction)).toBeUndefined();
});

test("a receipt that comes a block late is waited for, and one of another payment is not", async () => {
  const [its, other] = [await fixture.authorization(), await fixture.authorization()];
  const transaction = await fixture.pay(its);
  const { number } = await fixture.block();
  const { url, asked } = await nodeThat(illNode(fixture.rpcUrl, { receiptsLate: true, latencyMs: 80 }));
  const confirm = confirmWith(url);
  const confirmed = confirm(paymentOf(its, number), transaction);
  const receipts = () => asked.filter(({ method }) => method === "eth_getTransactionReceipt").length;
  await eventually("it is asked for again", () => receipts() > 1);
  await fixture.mine(1);
  expect(await confirmed).toMatchObject({ transaction, by: "facilitator" });
  const before = receipts();
  expect(await confirm(paymentOf(other, number), transaction)).toBeUndefined();
  expect(receipts() - before).toBe(1);
});
