import { beforeEach, expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { auditOf } from "../../audit-of.ts";
import { configureRefunds, refundable } from "../../refundable.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });
beforeEach(() => configureRefunds(payments));

test("an export has who gets what, is found again under the id that was chosen for it, and the audit has a line for each call", async () => {
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
  expect((await get(`/api/v1/payments/refunds/exports/${id}`, { as: "viewer" })).json()).toEqual(made.json());
  expect(await auditOf(payments.redis)).toMatchObject(
    ids.map((call_id) => ({ action: "refund", call_id, by: "otto", reason: "their runner is gone" })),
  );
});

test("an export that is asked for again is the same, whoever asks and why, and the audit tells once who made it", async () => {
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
