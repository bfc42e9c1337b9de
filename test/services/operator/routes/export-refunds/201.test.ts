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
