import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { audited } from "../../../support/audited.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("a payment that a gateway checks on request is completed if the chain shows it, and the answer has its state", async () => {
    const id = await payments.claim({ nonce: await payments.payOnChain() });
    const { post } = await fixture.start();
    const reply = await post(`/api/v1/payments/${id}/reconcile`, {});
    expect([reply.status, reply.json()]).toEqual([
      ...[200, { call_id: id, state_before: "settling", state: "queued", looked: true }],
    ]);
    expect(await audited(payments.redis.client)).toMatchObject([
      { action: "reconcile", call_id: id, by: "otto" },
    ]);
  });

  test("without a gateway the answer after the wait says that no check was made; an unknown payment has no state", async () => {
    const id = await payments.claim();
    await payments.stopGateway();
    const { post } = await fixture.start();
    const reply = await post(`/api/v1/payments/${id}/reconcile`, { wait_ms: 50 });
    expect(reply.json()).toMatchObject({ state: "settling", looked: false });
    const unknown = await post(`/api/v1/payments/c_${"0".repeat(32)}/reconcile`, {});
    expect(unknown.json()).toMatchObject({ state_before: null, state: null, looked: null });
  });
});

describe("400", () => {
  const fixture = useOperator();

  test("a wait of more than half a minute is refused: 400", async () => {
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/reconcile`, { wait_ms: 30_001 });
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
  });
});
