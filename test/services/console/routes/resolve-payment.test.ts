import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { keys } from "../../../fixtures/redis.ts";
import { auditOf } from "../audit-of.ts";
import { decideOn, paidInReview } from "./resolve-payment/decide.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  const decide = decideOn(payments, fixture);
  const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

  test("a payment in review that is declared settled gets its job, and the audit log has the operator and the transaction", async () => {
    const { id, transaction } = await paidInReview(payments);
    const decided = await decide(id, { verdict: "settled", transaction, reason: "seen on the explorer" });
    expect(decided.status).toBe(200);
    expect(decided.json()).toMatchObject({ call_id: id, state: "queued", settlement: { transaction } });
    expect(await stateOf(id)).toBe("QUEUED");
    expect(await auditOf(payments.redis)).toMatchObject([
      { action: "settle", call_id: id, by: "otto", reason: "seen on the explorer", transaction },
    ]);
  });

  test("a payment in review that is declared void counts as not paid, and its body is deleted", async () => {
    const id = await payments.claimForReview();
    const decided = await decide(id, { verdict: "void", reason: "it expired" });
    expect(decided.status).toBe(200);
    expect(decided.json()).toMatchObject({ state: "void", body_kept: false, decided: { by: "otto" } });
    const payment = await payments.gateway.journal.find(id);
    expect([payment?.state, payment?.call, payment?.decided]).toEqual([
      ...["VOID", undefined, { by: "otto", reason: "it expired" }],
    ]);
  });

  test("a dropped payment with an unknown outcome loses its body, and the audit log says who dropped it", async () => {
    const id = await payments.claim();
    const dropped = { by: "otto", reason: "it fills Redis" };
    const decided = await decide(id, { verdict: "dropped", reason: "it fills Redis" });
    expect(decided.status).toBe(200);
    expect(decided.json()).toMatchObject({ state: "settling", body_kept: false, dropped });
    expect(await payments.gateway.journal.find(id)).toMatchObject({
      state: "SETTLING",
      callBytes: 0,
      dropped,
    });
    expect(await auditOf(payments.redis)).toMatchObject([{ action: "drop", call_id: id, ...dropped }]);
  });

  test("an acknowledged disputed payment stays as it is, and is no longer disputed", async () => {
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain says: expired");
    const decided = await decide(id, { verdict: "acknowledged", reason: "seen" });
    expect(decided.status).toBe(200);
    const { get } = await fixture.start();
    const shown = await get(`/api/v1/payments/${id}`);
    expect(decided.json()).toEqual({ ...shown.json(), decimals: 6 });
    expect(shown.json()).toMatchObject({
      ...{ state: "queued", contradicted: true, disputed: false },
      acknowledged: { by: "otto" },
    });
  });
});

describe("400", () => {
  const fixture = useOperator();
  const TRANSACTION = `0x${"ab".repeat(32)}`;

  test.each([
    [{ verdict: "void" }, /^reason: /],
    [{ verdict: "settled", reason: "x" }, /^transaction: /],
    [{ verdict: "settled", reason: "x", transaction: "0x12" }, /^transaction: must be a transaction hash/],
    [{ verdict: "void", reason: "x", transaction: TRANSACTION }, /transaction/],
    [{ verdict: "paid", reason: "x" }, /^verdict: /],
  ])("a decision %j is refused with 400, and the answer says what is wrong", async (decision, detail) => {
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/resolve`, decision);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect(refused.json()["detail"]).toMatch(detail);
  });
});

describe("403", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("a viewer may not decide about money: 403", async () => {
    const id = await payments.claimForReview();
    const { post } = await fixture.start();
    const decision = { verdict: "void", reason: "x" };
    const refused = await post(`/api/v1/payments/${id}/resolve`, decision, { as: "viewer" });
    expect(refusalOf(refused)).toEqual([403, "operator.forbidden"]);
    expect((await payments.gateway.journal.find(id))?.state).toBe("REVIEW");
  });
});

describe("404", () => {
  const fixture = useOperator();

  test("a decision about a payment that is not in the journal gets 404", async () => {
    const { post } = await fixture.start();
    const decision = { verdict: "void", reason: "x" };
    const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/resolve`, decision);
    expect(refusalOf(refused)).toEqual([404, "payment.unknown"]);
  });
});

describe("409", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  const decide = decideOn(payments, fixture);
  const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

  test("a payment that is neither in review nor disputed is not changed: 409 with its state", async () => {
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

  test("without the tokens' configuration no chain can be read, and nothing is settled: 409", async () => {
    const { id, transaction } = await paidInReview(payments);
    const { post } = await fixture.start();
    const decision = { verdict: "settled", transaction, reason: "x" };
    const refused = await post(`/api/v1/payments/${id}/resolve`, decision);
    expect(refusalOf(refused)).toEqual([409, "token.unconfigured"]);
    expect((await payments.gateway.journal.find(id))?.state).toBe("REVIEW");
  });
});
