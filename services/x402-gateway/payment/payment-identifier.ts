/*
 * The extension "payment-identifier" of x402 version 2. What the gateway needs of it is this; the official package of extensions would
 * bring twenty others with it, viem among them. A test compares the two.
 */
export const PAYMENT_IDENTIFIER = "payment-identifier";

const PATTERN = /^[a-zA-Z0-9_-]+$/;
const LENGTH_MIN = 16;
const LENGTH_MAX = 128;

/** What a 402 says of it: a client may send an identifier, and need not. */
export const OPTIONAL_IDENTIFIER = {
  info: { required: false },
  schema: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: {
      required: { type: "boolean" },
      id: { type: "string", minLength: LENGTH_MIN, maxLength: LENGTH_MAX, pattern: PATTERN.source },
    },
    required: ["required"],
  },
} as const;

export function isPaymentIdentifier(id: string): boolean {
  return id.length >= LENGTH_MIN && id.length <= LENGTH_MAX && PATTERN.test(id);
}
