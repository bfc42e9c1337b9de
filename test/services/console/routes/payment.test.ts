import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  async function shown(id: string): Promise<Record<string, unknown>> {
    const { get } = await fixture.start({ configDir: payments.postern.configDir });
    const answer = await get(`/api/v1/payments/${id}`, { as: "viewer" });
    expect(answer.status).toBe(200);
    return answer.json();
  }

  test("a payment in review has its reason, its evidence in sentences, and the actions of an operator", async () => {
    const id = await payments.claimForReview("the node lacks logs");
    const { evidence, ...payment } = await shown(id);
    expect(payment).toMatchObject({
      ...{ state: "review", reason: "the node lacks logs", body_kept: true },
      actions: ["settle", "void", "drop"],
      meaning: "the evidence does not show whether the payment was made",
    });
    expect(evidence).toEqual([
      "In review: the node lacks logs.",
      expect.stringMatching(/^The facilitator \(http\S+\) was asked once to settle it, at /),
      "It can only have been paid in block 1 or later.",
      expect.stringMatching(/^The authorization of 0x\w{40} expires at /),
      "No transaction that paid it is known.",
    ]);
  });

  test("a payment that the chain has contradicted since is disputed, and can be acknowledged", async () => {
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain says: expired");
    const payment = await shown(id);
    expect(payment).toMatchObject({
      ...{ state: "queued", contradicted: true, disputed: true, actions: ["acknowledge", "reconcile"] },
      settlement: { by: "facilitator" },
    });
    expect(payment["evidence"]).toEqual(
      expect.arrayContaining([
        "Contradicted: the chain says: expired.",
        expect.stringMatching(/^The facilitator reported transaction 0x\w{64}, /),
      ]),
    );
  });
});

describe("404", () => {
  const fixture = useOperator();

  test("a payment that is not in the journal gets 404, and so does an invalid call id", async () => {
    const { get } = await fixture.start();
    const unknown = await get(`/api/v1/payments/c_${"0".repeat(32)}`);
    expect(refusalOf(unknown)).toEqual([404, "payment.unknown"]);
    expect(refusalOf(await get("/api/v1/payments/all"))).toEqual([404, "request.not_found"]);
  });
});
