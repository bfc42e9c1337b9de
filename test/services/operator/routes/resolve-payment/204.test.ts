import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { auditOf } from "../../audit-of.ts";
import { decideOn, paidInReview } from "./decide.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });
const decide = decideOn(payments, fixture);
const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

test("a payment in review that is decided to be settled has its job, and the audit says who decided by which transaction", async () => {
  const { id, transaction } = await paidInReview(payments);
  const decided = await decide(id, { verdict: "settled", transaction, reason: "seen on the explorer" });
  expect(decided.status).toBe(204);
  expect(await stateOf(id)).toBe("QUEUED");
  expect(await auditOf(payments.redis)).toMatchObject([
    { action: "settle", call_id: id, by: "otto", reason: "seen on the explorer", transaction },
  ]);
});

test("a payment in review that is decided to be void is not paid, and its body is gone", async () => {
  const id = await payments.claimForReview();
  expect((await decide(id, { verdict: "void", reason: "it expired" })).status).toBe(204);
  const payment = await payments.gateway.journal.find(id);
  expect([payment?.state, payment?.call, payment?.decided]).toEqual([
    ...["VOID", undefined, { by: "otto", reason: "it expired" }],
  ]);
});

test("a payment whose outcome is open loses its body when it is dropped, and the audit says who dropped it", async () => {
  const id = await payments.claim();
  expect((await decide(id, { verdict: "dropped", reason: "it fills Redis" })).status).toBe(204);
  const dropped = { by: "otto", reason: "it fills Redis" };
  expect(await payments.gateway.journal.find(id)).toMatchObject({ state: "SETTLING", callBytes: 0, dropped });
  expect(await auditOf(payments.redis)).toMatchObject([{ action: "drop", call_id: id, ...dropped }]);
});

test("a disputed payment that is acknowledged stays as it is, and is disputed no more", async () => {
  const id = await payments.buy();
  await payments.gateway.journal.markDisputed(id, "the chain says: expired");
  expect((await decide(id, { verdict: "acknowledged", reason: "seen" })).status).toBe(204);
  const { get } = await fixture.start();
  const shown = await get(`/api/v1/payments/${id}`);
  expect(shown.json()).toMatchObject({ state: "queued", disputed: false, acknowledged: { by: "otto" } });
});
