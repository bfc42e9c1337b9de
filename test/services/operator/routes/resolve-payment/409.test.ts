import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { decideOn, paidInReview } from "./decide.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });
const decide = decideOn(payments, fixture);
const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

test("a payment that is not in review is left as it is, and so is one that is not disputed: 409, which says how it stands", async () => {
  const id = await payments.buy();
  const voided = await decide(id, { verdict: "void", reason: "x" });
  expect(refusalOf(voided)).toEqual([409, "payment.undecidable"]);
  expect(voided.json()["detail"]).toContain("is queued: only a payment in review can be resolved");
  const seen = await decide(id, { verdict: "acknowledged", reason: "x" });
  expect(refusalOf(seen)).toEqual([409, "payment.undecidable"]);
  const dropped = await decide(id, { verdict: "dropped", reason: "x" });
  expect(refusalOf(dropped)).toEqual([409, "payment.undecidable"]);
  expect(await stateOf(id)).toBe("QUEUED");
});

test("a transaction that does not pay it, or that pays for another call, settles nothing: 409", async () => {
  const { id, transaction } = await paidInReview(payments);
  const settle = (hash: string) => decide(id, { verdict: "settled", transaction: hash, reason: "x" });
  const missing = await settle(`0x${"ab".repeat(32)}`);
  expect(refusalOf(missing)).toEqual([409, "payment.not_shown"]);
  await payments.redis.client.set(keys.paidTransfer(payments.devnet.network, transaction, 1), "c_other");
  expect(refusalOf(await settle(transaction))).toEqual([409, "payment.transfer_taken"]);
  expect(await stateOf(id)).toBe("REVIEW");
});

test("without the tokens' configuration no chain can be asked, and nothing is settled: 409", async () => {
  const { id, transaction } = await paidInReview(payments);
  const { post } = await fixture.start();
  const decision = { verdict: "settled", transaction, reason: "x" };
  const refused = await post(`/api/v1/payments/${id}/resolve`, decision);
  expect(refusalOf(refused)).toEqual([409, "token.unconfigured"]);
  expect((await payments.gateway.journal.find(id))?.state).toBe("REVIEW");
});
