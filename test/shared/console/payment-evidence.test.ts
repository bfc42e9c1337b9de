import { expect, test } from "vitest";
import { evidenceOf } from "../../../shared/console/payment-evidence.ts";
import type { Payment } from "../../../shared/payments/payment.ts";

const OPEN = { state: "SETTLING", facilitator: "f", dispatches: 1, dispatchedAt: 0, sinceBlock: 7n } as const;

test.each([
  ["1893456000", "expires at 2030-01-01T00:00:00.000Z"],
  ["253402300800", "never expires"],
  [String(2n ** 256n - 1n), "never expires"],
])(
  "the evidence says when an authorization expires, in the same form as the terms: %s",
  (valid_before, says) => {
    const terms = { payer: "0xa", valid_before };
    expect(evidenceOf({ ...OPEN, terms } as Payment)).toContain(`The authorization of 0xa ${says}.`);
  },
);

test.each([undefined, { by: "otto", reason: "seen" }])(
  "the evidence of a payment that the chain contradicts does not call it unconfirmed or in review (acknowledged: %o)",
  (acknowledged) => {
    const settlement = { transaction: "0xb", by: "facilitator" };
    const payment = { ...OPEN, state: "INJECTED", settlement, proven: false, terms: {}, acknowledged };
    const evidence = evidenceOf({ ...payment, reason: "the chain says: expired" } as unknown as Payment);
    expect(evidence).toContain("Contradicted: the chain says: expired.");
    expect(evidence).toContain(
      "The facilitator reported transaction 0xb, but the chain does not show the payment.",
    );
    expect(evidence.join(" ")).not.toMatch(/review|yet/);
  },
);

test("a sentence of the evidence ends with one full stop, even if the reason in it has its own", () => {
  const decisionBy = (by: string) => ({ by, reason: "No money came." });
  const by = { acknowledged: decisionBy("otto"), decided: decisionBy("ada"), dropped: decisionBy("eve") };
  const payment = { ...OPEN, state: "VOID", terms: {}, reason: "It expired.", ...by };
  const evidence = evidenceOf(payment as unknown as Payment);
  expect(evidence).toEqual(
    expect.arrayContaining([
      "Not paid: It expired.",
      "otto acknowledged it: No money came.",
      "ada decided: No money came.",
      "eve dropped its body: No money came. It is no longer settled, and its call never runs.",
    ]),
  );
});
