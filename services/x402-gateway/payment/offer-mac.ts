import { createHash } from "node:crypto";
import { hmacSha256, isSignedByAny } from "../../../shared/crypto/hmac.ts";
import type { Secret } from "../../../shared/crypto/secret.ts";

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
  /** The digest of the operator's quote that the price is by, if it is by one. */
  platformQuote: string | undefined;
};

/** The quote as a client carries it in the requirement's `extra` and gives it back unchanged. */
export type QuoteExtra = { quoteDigest: string; quoteExpiry: number; quoteMac: string };

const MAC = /^[A-Za-z0-9_-]{43}$/;

/** The `X-X402-QUOTE-DIGEST` of the job: the operator's own digest where the price is by a quote of theirs. */
export function quoteDigest(terms: QuoteTerms): string {
  return terms.platformQuote ?? termsDigest(terms);
}

/** SHA-256 over the terms, each preceded by its length, as 0x and 64 hex digits. */
function termsDigest(terms: QuoteTerms): string {
  const { serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry, platformQuote } =
    terms;
  const always = [serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry];
  const parts = platformQuote === undefined ? always : [...always, platformQuote];
  const text = ["postern-quote-1", ...parts].map((part) => `${String(part).length}:${part}`).join("");
  return `0x${createHash("sha256").update(text).digest("hex")}`;
}

/** Signs a quote, so that no replica has to remember it. */
export function signQuote(terms: QuoteTerms, secret: Secret): QuoteExtra {
  const quoteMac = hmacSha256(secret, Buffer.from(termsDigest(terms))).toString("base64url");
  return { quoteDigest: quoteDigest(terms), quoteExpiry: terms.expiry, quoteMac };
}

/** Whether one of these secrets signed exactly these terms. */
export function isQuoteOf(terms: QuoteTerms, extra: QuoteExtra, secrets: readonly Secret[]): boolean {
  if (extra.quoteDigest !== quoteDigest(terms) || !MAC.test(extra.quoteMac)) return false;
  return isSignedByAny(secrets, Buffer.from(extra.quoteMac, "base64url"), Buffer.from(termsDigest(terms)));
}
