import { createHash } from "node:crypto";
import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 as Sdk } from "@x402/core/types/v1";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import { hmacSha256, isSignedByAny } from "../../../shared/platform/crypto/hmac.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { discoveryOf, resourceOf } from "../../../shared/pricing/discovery.ts";
import type { Job, Token } from "./catalog.ts";

/** Version 1's clients take an absent `outputSchema`, and refuse null. */
type PaymentRequirementsV1 = Omit<Sdk, "outputSchema"> & { outputSchema?: object };

export type OfferSettings = {
  publicUrl: string;
  /** As offered. */
  maxTimeoutSeconds: number;
  /** So long an authorization may be valid: clients sign for longer than they are offered, and their clocks may be ahead. */
  windowSecondsMax: number;
  /** For how long an offer is good, at least. */
  ttlSeconds: number;
  /** The first signs, all are accepted. */
  macSecrets: readonly [Secret, ...Secret[]];
  /** Time that a settle request has: an authorization that ends sooner could not be settled. */
  settleTimeoutSeconds: number;
  /** The amounts of version 1 that a job was offered for until lately. */
  earlierAmounts?: (job: Job, token: Token) => readonly bigint[];
};

export function toOfferSettings(x402: X402Toml): OfferSettings {
  return {
    publicUrl: x402.public_url,
    maxTimeoutSeconds: x402.max_timeout_secs,
    windowSecondsMax: x402.payment_window_secs_max,
    ttlSeconds: x402.quote_ttl_secs,
    macSecrets: x402.quote_secret as [Secret, ...Secret[]],
    settleTimeoutSeconds: x402.settle_timeout_secs,
  };
}

/** Offers made within this time share their expiry, so that they can be made once and sent often. */
export const SHARED_SECONDS = 10;

/**
 * When an offer made now expires, in unix seconds: after the promised time, or with the operator's quote that its price
 * comes from.
 */
export function expiryOf({ operatorQuote }: Job, { ttlSeconds }: OfferSettings, nowSeconds: number): number {
  const promised = (Math.floor(nowSeconds / SHARED_SECONDS) + 1) * SHARED_SECONDS + ttlSeconds;
  return operatorQuote === undefined ? promised : Math.min(promised, Number(operatorQuote.quote.expiry));
}

/** Version 2: one offer for each token that a facilitator takes in it, each with its MAC in `extra`. */
export function toOffers(job: Job, settings: OfferSettings, expiry: number): PaymentRequirements[] {
  const { publicUrl, maxTimeoutSeconds, macSecrets } = settings;
  const offered = job.prices.filter(({ versions }) => versions.v2);
  return offered.map(({ token, amount }) => {
    const terms = termsOf(job, token, String(amount), { publicUrl, maxTimeoutSeconds, expiry });
    return toRequirements(terms, token, signOffer(terms, macSecrets[0]));
  });
}

/**
 * Version 1: one offer for each token that a facilitator takes in it, on a network that its clients know. They reject a whole
 * 402 with one unknown name.
 */
export function toOffersV1(job: Job, settings: OfferSettings): PaymentRequirementsV1[] {
  const offered = job.prices.filter(({ versions }) => versions.v1);
  return offered.flatMap(({ token, amount }) => {
    const offer = toRequirementsV1(job, token, String(amount), settings);
    return offer === undefined ? [] : [offer];
  });
}

/**
 * The offer as clients get it and give it back. A new field beside `extra` must also be in `accepted` of header.ts; a field
 * that binds us must be in the terms and in their digest, under a new version of the digest's text.
 */
export function toRequirements(terms: OfferTerms, token: Token, extra: OfferExtra | undefined) {
  const { network, asset, payTo, amount, maxTimeoutSeconds } = terms;
  return {
    scheme: token.scheme,
    network: network as PaymentRequirements["network"],
    asset,
    amount,
    payTo,
    maxTimeoutSeconds,
    extra: { ...token.extra, ...extra },
  };
}

export function toRequirementsV1(
  job: Job,
  token: Token,
  amount: string,
  { publicUrl, maxTimeoutSeconds }: OfferSettings,
): PaymentRequirementsV1 | undefined {
  if (token.v1Network === undefined) return undefined;
  const { url, description, mimeType } = resourceOf(job, publicUrl);
  const outputSchema = discoveryOf(job.input)?.outputSchema;
  return {
    scheme: token.scheme,
    network: token.v1Network as PaymentRequirementsV1["network"],
    maxAmountRequired: amount,
    resource: url,
    description,
    mimeType,
    payTo: token.payTo,
    maxTimeoutSeconds,
    asset: token.asset,
    extra: { ...token.extra },
    ...(outputSchema && { outputSchema }),
  };
}

/** What a client is promised. */
export type OfferTerms = {
  /** Where: gateways that share a secret sell for themselves. */
  publicUrl: string;
  serviceId: number;
  jobIndex: number;
  network: string;
  asset: string;
  payTo: string;
  amount: string;
  maxTimeoutSeconds: number;
  /** Unix seconds. */
  expiry: number;
  /** Of the operator's quote that the price comes from, if it comes from one. */
  operatorQuoteDigest: string | undefined;
};

export function termsOf(
  { serviceId, jobIndex, operatorQuote }: Job,
  { network, asset, payTo }: Token,
  amount: string,
  bounds: Pick<OfferTerms, "publicUrl" | "maxTimeoutSeconds" | "expiry">,
): OfferTerms {
  const operatorQuoteDigest = operatorQuote?.digest;
  return { serviceId, jobIndex, network, asset, payTo, amount, ...bounds, operatorQuoteDigest };
}

/** The proof of an offer, which a client gets in the requirement's `extra` and gives back unchanged. */
export type OfferExtra = { quoteDigest: string; quoteExpiry: number; quoteMac: string };

/** 32 bytes in base64url. The last digit has two bits to spare, which have to be 0: a MAC has one spelling. */
const MAC = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;

/** The job's `X-X402-QUOTE-DIGEST`: the operator's own digest if the price comes from an operator's quote. */
export function offerDigest(terms: OfferTerms): string {
  return terms.operatorQuoteDigest ?? termsDigest(terms);
}

/**
 * SHA-256 over the terms, each preceded by its length, as 0x and 64 hex digits. The first part is the text's version: 1 had no
 * public URL, and its offers are not taken any more.
 */
function termsDigest(terms: OfferTerms): string {
  const { publicUrl, serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry } = terms;
  const always = [publicUrl, serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry];
  const { operatorQuoteDigest } = terms;
  const parts = operatorQuoteDigest === undefined ? always : [...always, operatorQuoteDigest];
  const text = ["postern-quote-2", ...parts].map((part) => `${String(part).length}:${part}`).join("");
  return `0x${createHash("sha256").update(text).digest("hex")}`;
}

/** Signs the terms, so that no replica has to remember its offers. */
function signOffer(terms: OfferTerms, secret: Secret): OfferExtra {
  const quoteMac = hmacSha256(secret, Buffer.from(termsDigest(terms))).toString("base64url");
  return { quoteDigest: offerDigest(terms), quoteExpiry: terms.expiry, quoteMac };
}

/** Whether one of these secrets signed exactly these terms. */
export function isOurOffer(terms: OfferTerms, extra: OfferExtra, secrets: readonly Secret[]): boolean {
  if (extra.quoteDigest !== offerDigest(terms) || !MAC.test(extra.quoteMac)) return false;
  return isSignedByAny(secrets, Buffer.from(extra.quoteMac, "base64url"), Buffer.from(termsDigest(terms)));
}
