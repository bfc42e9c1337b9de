import { beforeEach, describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { keys } from "../../../fixtures/redis.ts";
import { auditOf } from "../audit-of.ts";
import { configureRefunds, refundable } from "../refundable.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  beforeEach(() => configureRefunds(payments));

  test("the refund of a call that its runner accepted after the export is withdrawn, and the audit log says who did it", async () => {
    const [id = ""] = await refundable(payments);
    const { get, post } = await fixture.start({ configDir: payments.postern.configDir });
    await post("/api/v1/payments/refunds/exports", { call_ids: [id], reason: "x" });
    // A producer writes this field if its 2xx comes too late.
    await payments.redis.client.hset(keys.record(id), "late", Date.now());
    const payment = await get(`/api/v1/payments/${id}`);
    expect(payment.json()).toMatchObject({ state: "refund_pending", actions: ["refund-withdraw"] });
    const withdrawn = await post(`/api/v1/payments/${id}/withdraw-refund`, { reason: "the job was done" });
    expect(withdrawn.status).toBe(200);
    expect(withdrawn.json()["state"]).toBe("injected");
    expect((await get(`/api/v1/payments/${id}`)).json()).toEqual(withdrawn.json());
    expect(await auditOf(payments.redis)).toContainEqual(
      expect.objectContaining({ action: "withdraw", call_id: id, by: "otto", reason: "the job was done" }),
    );
  });
});

describe("404", () => {
  const fixture = useOperator();

  test("the refund of a payment that is not in the journal cannot be withdrawn: 404", async () => {
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/withdraw-refund`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([404, "payment.unknown"]);
  });
});

describe("409", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("a payment without a pending refund has none to withdraw: 409 with its state", async () => {
    const id = await payments.claim();
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/payments/${id}/withdraw-refund`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([409, "payment.undecidable"]);
    expect(refused.json()["detail"]).toContain(`${id} is settling: only a pending refund`);
  });
});
