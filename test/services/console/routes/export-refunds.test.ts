import { beforeEach, describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { keys } from "../../../fixtures/redis.ts";
import { auditOf } from "../audit-of.ts";
import { configureRefunds, refundable } from "../refundable.ts";

describe("201", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  beforeEach(() => configureRefunds(payments));

  test("an export has recipients and amounts, is found again under its chosen id, and writes an audit line for each call", async () => {
    const ids = await refundable(payments, 2);
    const { get, post } = await fixture.start({ configDir: payments.postern.configDir });
    const id = `r_${"0a".repeat(16)}`;
    const made = await post("/api/v1/payments/refunds/exports", {
      ...{ id, call_ids: ids, reason: "their runner is gone" },
    });
    expect([made.status, made.headers["location"]]).toEqual([201, `/api/v1/payments/refunds/exports/${id}`]);
    const payer = payments.payer.address.toLowerCase();
    const row = { payer, amount: "3200000", decimals: 6, state: "refund_pending", late_at: null };
    expect(made.json()).toMatchObject({
      ...{ id, by: "otto", network: payments.devnet.network },
      rows: ids.map((call_id) => ({ call_id, ...row })),
    });
    expect((await get(`/api/v1/payments/refunds/exports/${id}`, { as: "viewer" })).json()).toEqual(
      made.json(),
    );
    expect(await auditOf(payments.redis)).toMatchObject(
      ids.map((call_id) => ({ action: "refund", call_id, by: "otto", reason: "their runner is gone" })),
    );
  });

  test("a repeated export is the same, even from another operator and with another reason, and the audit log has its author once", async () => {
    const [one = "", other = ""] = await refundable(payments, 2);
    const { post } = await fixture.start({ configDir: payments.postern.configDir });
    const id = `r_${"0b".repeat(16)}`;
    const order = (call_ids: string[], reason: string) =>
      post("/api/v1/payments/refunds/exports", { id, call_ids, reason });
    const made = await order([one], "their runner is gone");
    const again = await order([one, other], "the answer was lost");
    expect([again.status, again.json()]).toEqual([201, made.json()]);
    const another = await order([other], "the same id by mistake");
    expect([another.status, another.json()["code"]]).toEqual([409, "payment.undecidable"]);
    expect(await auditOf(payments.redis)).toMatchObject([
      { action: "refund", call_id: one, reason: "their runner is gone", selection: `export ${id}` },
    ]);
  });
});

describe("400", () => {
  const fixture = useOperator();
  const CALL = `c_${"0".repeat(32)}`;

  test.each([
    [{ call_ids: [CALL] }, /^reason: /],
    [{ call_ids: [], reason: "x" }, /^call_ids: /],
    [{ call_ids: ["c_1"], reason: "x" }, /^call_ids/],
    [{ id: "mine", call_ids: [CALL], reason: "x" }, /^id: /],
    [{ call_ids: [CALL], reason: "\ud800" }, /^body: must not contain half a surrogate pair/],
  ])("an export of %j is refused with 400, and the answer says what is wrong", async (order, detail) => {
    const { post } = await fixture.start();
    const refused = await post("/api/v1/payments/refunds/exports", order);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect(refused.json()["detail"]).toMatch(detail);
  });
});

describe("409", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  async function exportOf(ids: readonly string[]) {
    const { post } = await fixture.start({ configDir: payments.postern.configDir });
    return post("/api/v1/payments/refunds/exports", { call_ids: ids, reason: "x" });
  }

  test("refunds that are not due, and refunds that could never be seen on the chain, are not exported: 409", async () => {
    configureRefunds(payments);
    const settling = await payments.claim();
    expect(refusalOf(await exportOf([settling]))).toEqual([409, "payment.undecidable"]);
    const [failed = ""] = await refundable(payments);
    configureRefunds(payments, { refund_from: [] });
    const refused = await exportOf([failed]);
    expect(refusalOf(refused)).toEqual([409, "token.unconfigured"]);
    expect(refused.json()["detail"]).toMatch(/has no refund_from: .*; nothing was exported$/);
    expect(await payments.redis.client.exists(keys.refundsPending)).toBe(0);
  });
});
