import { declarePaymentIdentifierExtension, isValidPaymentId } from "@x402/extensions/payment-identifier";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  isPaymentIdentifier,
  OPTIONAL_IDENTIFIER,
} from "../../../../services/x402-gateway/payment/payment-identifier.ts";

test("a 402 declares the payment identifier as the official package of extensions does", () => {
  expect(OPTIONAL_IDENTIFIER).toEqual(declarePaymentIdentifierExtension(false));
});

test("a text is a valid payment identifier exactly if the official package accepts it", () => {
  const near = fc.string({
    minLength: 14,
    maxLength: 130,
    unit: fc.constantFrom("a", "Z", "0", "_", "-", ".", "\n"),
  });
  const good = fc.string({ minLength: 14, maxLength: 130, unit: fc.constantFrom("a", "Z", "0", "_", "-") });
  fc.assert(
    fc.property(fc.oneof(near, good, fc.string()), (id) => isPaymentIdentifier(id) === isValidPaymentId(id)),
  );
  for (const length of [15, 16, 128, 129])
    expect([length, isPaymentIdentifier("a".repeat(length))]).toEqual([
      length,
      length >= 16 && length <= 128,
    ]);
});
