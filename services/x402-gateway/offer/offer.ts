import { createHash } from "node:crypto";
import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 as Sdk } from "@x402/core/types/v1";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import { hmacSha256, isSignedByAny } from "../../../shared/platform/crypto/hmac.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { discoveryOf, resourceOf, type ShopFacts } from "../../../shared/pricing/discovery.ts";
import type { Job, Token } from "./catalog.ts";

/** Clients of version 1 accept a missing `outputSchema`, and refuse null. */
type PaymentRequirementsV1 = Omit<Sdk, "outputSchema"> & { outputSchema?: object };

export type OfferSettings = {
  publicUrl: string;
  shop: ShopFacts;
  /** Maximum validity of an authorization, as the offers state it (`maxTimeoutSeconds`). */
  maxTimeoutSeconds: number;
  /**
   * Maximum validity of an authorization that the gateway accepts. It is longer than the offers state, because some
   * clients sign for longer than that, and their clocks may be ahead.
   */
  windowSecondsMax: number;
  /** Whether offers of version 2 say that a payment settles before its job runs (`UPFRONT`). */
  offersFlow: boolean;
  /** Minimum time that an offer is valid. */
  ttlSeconds: number;
  /** Secrets for the MACs of offers. The first one makes new MACs. A MAC by any of them is accepted. */
  macSecrets: readonly [Secret, ...Secret[]];
  /**
   * Time limit of a settle request. An authorization that ends sooner is refused, because it could expire before it is settled.
   */
  settleTimeoutSeconds: number;
  /** Returns the amounts that offers from before a reload had for a job in a token. Only version 1 needs them. */
  earlierAmounts?: (job: Job, token: Token) => readonly bigint[];
};

export function toOfferSettings(x402: X402Toml): OfferSettings {
  return {
    publicUrl: x402.public_url,
    shop: x402,
    maxTimeoutSeconds: x402.max_timeout_secs,
    windowSecondsMax: x402.payment_window_secs_max,
    offersFlow: x402.offer_payment_flow,
    ttlSeconds: x402.quote_ttl_secs,
    macSecrets: x402.quote_secret as [Secret, ...Secret[]],
    settleTimeoutSeconds: x402.settle_timeout_secs,
  };
}

/**
 * Offers made within the same ten seconds have the same expiry. So they are equal, and one 402 can be cached for many requests.
 */
export const SHARED_SECONDS = 10;

/**
 * Returns the time when an offer that is made now expires, in unix seconds. The offer lasts at least `ttlSeconds`. If its price
 * comes from an operator's quote, it does not last longer than that quote.
 */
export function expiryOf({ operatorQuote }: Job, { ttlSeconds }: OfferSettings, nowSeconds: number): number {
  const promised = (Math.floor(nowSeconds / SHARED_SECONDS) + 1) * SHARED_SECONDS + ttlSeconds;
  return operatorQuote === undefined ? promised : Math.min(promised, Number(operatorQuote.quote.expiry));
}

/** Returns the offers of version 2: one for each token that a facilitator supports in this version, each with its MAC in `extra`. */
export function toOffers(job: Job, settings: OfferSettings, expiry: number): PaymentRequirements[] {
  const { publicUrl, maxTimeoutSeconds, macSecrets, offersFlow } = settings;
  const offered = job.prices.filter(({ versions }) => versions.v2);
  return offered.map(({ token, amount }) => {
    const terms = termsOf(job, token, String(amount), { publicUrl, maxTimeoutSeconds, expiry });
    return toRequirements(terms, token, { ...signOffer(terms, macSecrets[0]), ...(offersFlow && UPFRONT) });
  });
}

/**
 * Returns the offers of version 1: one for each token that a facilitator supports in this version, on a network that clients of version 1
 * know. Those clients reject a whole 402 if it has one unknown name.
 */
export function toOffersV1(job: Job, settings: OfferSettings): PaymentRequirementsV1[] {
  const offered = job.prices.filter(({ versions }) => versions.v1);
  return offered.flatMap(({ token, amount }) => {
    const offer = toRequirementsV1(job, token, String(amount), settings);
    return offer === undefined ? [] : [offer];
  });
}

/**
 * Makes an offer of version 2. Clients return it with their payment. If you add a field beside `extra`, also add it to `accepted`
 * in header.ts. If the gateway promises something with the field, also add it to `OfferTerms` and to `termsDigest`, and raise the
 * version of the digest's text.
 */
export function toRequirements(terms: OfferTerms, token: Token, extra: Partial<OfferExtra & typeof UPFRONT>) {
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
  { shop, maxTimeoutSeconds }: OfferSettings,
): PaymentRequirementsV1 | undefined {
  if (token.v1Network === undefined) return undefined;
  const { url, description, mimeType } = resourceOf(job, shop);
  const outputSchema = discoveryOf(job)?.outputSchema;
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

/** Terms that an offer promises to a client. Its MAC covers them. */
export type OfferTerms = {
  /** URL of the selling gateway. A gateway with the same secret but another URL does not accept the offer. */
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
  /** Digest of the operator's quote that the price comes from. Undefined if the price comes from the price list. */
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

/**
 * Member of an offer's `extra` that names its payment flow (x402 v2, section 6.1). "upfront" means that a payment settles before
 * its job runs. The MAC of an offer does not cover it, because this gateway settles every payment first, even if its offer names
 * no flow.
 */
export const UPFRONT = { paymentFlow: "upfront" } as const;

/**
 * Proof that this gateway has made an offer. A client gets it in the offer's `extra` and returns it unchanged with the payment.
 */
export type OfferExtra = { quoteDigest: string; quoteExpiry: number; quoteMac: string };

/**
 * Form of an offer's MAC: 32 bytes in base64url. The last digit has two unused bits, which must be 0. With other bits, the same
 * MAC could be written in several ways.
 */
const MAC = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;

/**
 * Returns the digest of the offer, which the runner gets as `X-X402-QUOTE-DIGEST`. If the price comes from an operator's quote,
 * it is the digest of that quote.
 */
export function offerDigest(terms: OfferTerms): string {
  return terms.operatorQuoteDigest ?? termsDigest(terms);
}

/**
 * Returns the SHA-256 hash of the terms, as 0x and 64 hex digits. The hashed text has the length of each term before the term, so
 * that no two lists of terms give the same text. Its first part is the version of the text. Version 1 had no public URL, and its
 * offers are no longer accepted.
 */
function termsDigest(terms: OfferTerms): string {
  const { publicUrl, serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry } = terms;
  const always = [publicUrl, serviceId, jobIndex, network, asset, payTo, amount, maxTimeoutSeconds, expiry];
  const { operatorQuoteDigest } = terms;
  const parts = operatorQuoteDigest === undefined ? always : [...always, operatorQuoteDigest];
  const text = ["postern-quote-2", ...parts].map((part) => `${String(part).length}:${part}`).join("");
  return `0x${createHash("sha256").update(text).digest("hex")}`;
}

/** Signs the terms. Any replica with the secret can later check a returned offer, so no replica has to remember its offers. */
function signOffer(terms: OfferTerms, secret: Secret): OfferExtra {
  const quoteMac = hmacSha256(secret, Buffer.from(termsDigest(terms))).toString("base64url");
  return { quoteDigest: offerDigest(terms), quoteExpiry: terms.expiry, quoteMac };
}

/** Whether the MAC in `extra` was made over exactly these terms, with one of these secrets. */
export function isOurOffer(terms: OfferTerms, extra: OfferExtra, secrets: readonly Secret[]): boolean {
  if (extra.quoteDigest !== offerDigest(terms) || !MAC.test(extra.quoteMac)) return false;
  return isSignedByAny(secrets, Buffer.from(extra.quoteMac, "base64url"), Buffer.from(termsDigest(terms)));
}
