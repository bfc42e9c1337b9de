/*
 * Implements the part of the extension "payment-identifier" of x402 version 2 that the gateway needs. The official package is not
 * used, because it has twenty other extensions and depends on viem. A test compares this file with that package.
 */
export const PAYMENT_IDENTIFIER = "payment-identifier";

const PATTERN = /^[a-zA-Z0-9_-]+$/;
const LENGTH_MIN = 16;
const LENGTH_MAX = 128;

/** Declaration of the extension in a 402. It says that a client may send an identifier, but need not. */
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
