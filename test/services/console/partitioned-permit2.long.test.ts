import { expect, test } from "vitest";
import type { DevAccount } from "../../../services/dev/chain/chain.ts";
import type { TransferMatches } from "../../../shared/console/transfer-matches.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../fixtures/console.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { idIn } from "../../fixtures/x402.ts";
import { payersIn } from "../../support/devnet.ts";
import { settleCall, wrapCall } from "../../support/permit2.ts";
import { permit2Payment, permit2Token } from "../x402-gateway/permit2-gateway.ts";
import { runIn } from "./run-of.ts";

const COUNT = 4;
const payments = usePayments({ token: (devnet) => permit2Token(devnet, "usdt"), partitions: COUNT });
const { devnet, redis } = payments;
const fixture = useOperator({ redis });

/** Makes a claimed payment that is not settled and needs a decision. */
async function inReview(payer: DevAccount) {
  const { headers, signed } = await permit2Payment(payments.gateway, { payer });
  const id = idIn(await payments.gateway.post(headers));
  await payments.gateway.journal.markForReview(id, "wrapped");
  return { id, signed };
}

test("in one transaction that pays for jobs of several partitions, each transfer pays for one job, that of its sender", async () => {
  await payments.restartGateway({ x402: { settle_timeout_secs: 1 } });
  await devnet.control.fault({ on: "settle", kind: "drop" });
  const [first, , , last] = (await payersIn(payments.partitions, devnet)) as [DevAccount, 0, 0, DevAccount];
  for (const payer of [first, last]) {
    await devnet.chain.mint(payer.address, 10n ** 9n, devnet.permit2Tokens.usdt);
    await devnet.chain.permit2.approve(payer, devnet.permit2Tokens.usdt);
  }
  const from_block = String((await devnet.chain.client.getBlockNumber()) + 1n);
  const [own, other] = [await inReview(first), await inReview(last)];
  const [unpaid, unpaidToo] = [await inReview(first), await inReview(last)];
  const transaction = await devnet.chain.send(wrapCall(settleCall(own.signed), settleCall(other.signed)));
  const service = await fixture.start({ partitions: COUNT, configDir: payments.postern.configDir });
  const settle = ({ id }: { id: string }) =>
    service.post(`/api/v1/payments/${id}/resolve`, { verdict: "settled", transaction, reason: "x" });

  for (const each of [own, other]) expect((await settle(each)).status).toBe(200);
  for (const each of [unpaid, unpaidToo])
    expect(refusalOf(await settle(each))).toEqual([409, "payment.transfer_taken"]);
  await eventually("two calls wait", async () => (await payments.gateway.waiting()).length === 2);

  const begun = await service.post("/api/v1/payments/audits", { from_block });
  const { result } = (await runIn(service, String(begun.headers["location"]), "done")) as unknown as {
    result: TransferMatches;
  };
  expect(result.tokens).toMatchObject([{ matched: 2, orphans: [], unsettled: [], missing: [] }]);
  const matched = result.tokens[0]?.matches.map(({ call_id }) => call_id);
  expect(matched?.toSorted()).toEqual([own.id, other.id].toSorted());
}, 60_000);
