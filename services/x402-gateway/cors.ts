import type { ServerResponse } from "node:http";

const EXPOSED = [
  "PAYMENT-REQUIRED",
  "PAYMENT-RESPONSE",
  "X-PAYMENT-RESPONSE",
  "Retry-After",
  "Location",
  "Idempotent-Replayed",
];

/** Any page may buy: what is sold needs no cookie, and the payment is in a header the page itself sets. */
export const CORS_HEADERS = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": EXPOSED.join(", "),
} as const;

/** `Access-Control-Expose-Headers` is a response header, and yet what `@x402/fetch` sends with its requests. */
const ALLOWED = [
  "Content-Type",
  "PAYMENT-SIGNATURE",
  "X-PAYMENT",
  "SIGN-IN-WITH-X",
  "Access-Control-Expose-Headers",
  "traceparent",
];

/** Answers a browser's preflight (Fetch standard, CORS protocol). */
export function createPreflight(metadataPrefix: string) {
  const caller = ["CALLER", "CALLER-NONCE", "CALLER-SIG", "CALLER-EXPIRY", "QUOTE"];
  const allowed = [...ALLOWED, ...caller.map((name) => `${metadataPrefix}-${name}`)].join(", ");
  return (res: ServerResponse): void => {
    res.writeHead(204, {
      ...CORS_HEADERS,
      "Access-Control-Allow-Methods": "GET, POST",
      "Access-Control-Allow-Headers": allowed,
      "Access-Control-Max-Age": "600",
    });
    res.end();
  };
}
