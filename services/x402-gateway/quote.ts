import { createHash } from "node:crypto";
import { hmacSha256, isSignedByAny } from "../../shared/crypto/hmac.ts";
import type { Secret } from "../../shared/crypto/secret.ts";

/** What a client is promised. `expiry` is unix seconds; 0 in version 1, which carries no quote. */
export type QuoteTerms = {
  serviceId: number;
  jobIndex: number;
  network: string;
  asset: string;
  payTo: string;
  amount: string;
  maxTimeoutSeconds: number;
  expiry: number;
};

/** The quote as a client carries it in the requirement's `extra` and gives it back unchanged. */
export type QuoteExtra = { quoteDigest: string; quoteExpiry: number; quoteMac: string };

const MAC = /^[A-Za-z0-9_-]{43}$/;

/** SHA-256 over the terms, each preceded by its length, as 0x and 64 hex digits: the `X-X402-QUOTE-DIGEST` of the job. */
export function quoteDigest(terms: QuoteTerms): `0x${string}` {
  const { serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry } = terms;
  const parts = [serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry];
  const text = ["postern-quote-1", ...parts].map((part) => `${String(part).length}:${part}`).join("");
  return `0x${createHash("sha256").update(text).digest("hex")}`;
}

/** Signs a quote, so that no replica has to remember it. */
export function signQuote(terms: QuoteTerms, secret: Secret): QuoteExtra {
  const digest = quoteDigest(terms);
  const quoteMac = hmacSha256(secret, Buffer.from(digest)).toString("base64url");
  return { quoteDigest: digest, quoteExpiry: terms.expiry, quoteMac };
}

/** Whether one of these secrets signed exactly these terms. */
export function isQuoteOf(terms: QuoteTerms, extra: QuoteExtra, secrets: readonly Secret[]): boolean {
  const digest = quoteDigest(terms);
  if (extra.quoteDigest !== digest || !MAC.test(extra.quoteMac)) return false;
  return isSignedByAny(secrets, Buffer.from(extra.quoteMac, "base64url"), Buffer.from(digest));
}
