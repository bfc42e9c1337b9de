import { expect, test } from "vitest";
import type { TokenChain } from "../../../../services/x402-gateway/payment/chains.ts";
import { Settler } from "../../../../services/x402-gateway/payment/settle.ts";
import type { TokenAuthorization } from "../../../../shared/chain/payment-schemes.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { Payment } from "../../../../shared/payments/payment.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useTokenChain } from "../../../fixtures/token-chain.ts";
import { useChainReader } from "../../../shared/chain/chain-reader.ts";
import { faultyNode } from "../../../support/node-before.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);

function confirmWith(rpcUrl = fixture.rpcUrl) {
  const tokenChain = {
    chain: chainOf({ rpcUrl }),
    eventOrder: "used_first",
    wantsReceipt: true,
  } as TokenChain;
  type Deps = ConstructorParameters<typeof Settler>[0];
  const deps: Pick<Deps, "chains" | "clock"> = { chains: { of: () => tokenChain }, clock: systemClock };
  const settler = new Settler(deps as Deps);
  return (payment: Payment, transaction: string) => settler.confirm(payment, transaction);
}

function paymentOf(authorization: TokenAuthorization, sinceBlock: bigint): Payment {
  const terms = {
    transfer_method: authorization.method,
    ...{
      asset: authorization.asset,
      payer: authorization.from,
      pay_to: authorization.to,
      nonce: authorization.nonce,
      amount: String(authorization.value),
    },
    ...{ valid_after: String(authorization.validAfter), valid_before: String(authorization.validBefore) },
  };
  return { terms, sinceBlock } as Payment;
}

test("a settlement is confirmed by its receipt if the receipt's block is not before the claim's block", async () => {
  const authorization = await fixture.authorization();
  const transaction = await fixture.pay(authorization);
  const { number } = await fixture.block();
  const confirm = confirmWith();
  expect(await confirm(paymentOf(authorization, number), transaction)).toMatchObject({
    transaction,
    position: 1,
  });
  expect(await confirm(paymentOf(authorization, number + 1n), transaction)).toBeUndefined();
});

test("a receipt that arrives a block late is awaited, and the receipt of another payment is not", async () => {
  const [authorization, other] = [await fixture.authorization(), await fixture.authorization()];
  const transaction = await fixture.pay(authorization);
  const { number } = await fixture.block();
  const { url, asked } = await nodeThat(faultyNode(fixture.rpcUrl, { receiptsLate: true, latencyMs: 80 }));
  const confirm = confirmWith(url);
  const confirmed = confirm(paymentOf(authorization, number), transaction);
  const receipts = () => asked.filter(({ method }) => method === "eth_getTransactionReceipt").length;
  await eventually("it is asked for again", () => receipts() > 1);
  await fixture.mine(1);
  expect(await confirmed).toMatchObject({ transaction, by: "facilitator" });
  const before = receipts();
  expect(await confirm(paymentOf(other, number), transaction)).toBeUndefined();
  expect(receipts() - before).toBe(1);
});
