import { createHash } from "node:crypto";
import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 as Sdk } from "@x402/core/types/v1";
import { SETTLE_MARGIN_SECS, type X402Toml } from "../../../shared/config/x402-toml.ts";
import { hmacSha256, isSignedByAny } from "../../../shared/crypto/hmac.ts";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { discoveryOf, resourceOf } from "../../../shared/pricing/discovery.ts";
import { assertOffered, type Job, jobPath, type Token } from "../catalog.ts";
import type { AcceptedPayment, DecodedPayment } from "./header.ts";

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
const SHARED_SECONDS = 10;

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
function toRequirements(terms: OfferTerms, token: Token, extra: OfferExtra | undefined) {
  const { network, asset, payTo, amount, maxTimeoutSeconds } = terms;
  return {
    scheme: "exact",
    network: network as PaymentRequirements["network"],
    asset,
    amount,
    payTo,
    maxTimeoutSeconds,
    extra: { ...token.extra, ...extra },
  };
}

function toRequirementsV1(
  job: Job,
  token: Token,
  amount: string,
  { publicUrl, maxTimeoutSeconds }: OfferSettings,
): PaymentRequirementsV1 | undefined {
  if (token.v1Network === undefined) return undefined;
  const { url, description, mimeType } = resourceOf(job, publicUrl);
  const outputSchema = discoveryOf(job.input)?.outputSchema;
  return {
    scheme: "exact",
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

/** The offer that a payment fits: what the facilitator is asked with, and the digest of the offer. */
export type MatchedOffer = { request: FacilitatorRequest; digest: string; amount: string };

type PaymentV1 = Extract<DecodedPayment, { version: 1 }>;
type PaymentV2 = Extract<DecodedPayment, { version: 2 }>;

/**
 * Finds the offer of this job that a payment fits, without asking anybody: terms and MAC, recipient, value, route and time
 * window. The quote is judged at `quoteAt`, by the clock that all gateways share, and the window at `windowAt`, as the chain will;
 * both are in unix milliseconds. Throws `payment.not_offered`, `payment.quote_expired` and `payment.window_unusable`.
 */
export function matchOffer(
  { decoded, token }: AcceptedPayment,
  job: Job,
  settings: OfferSettings,
  { quoteAt, windowAt }: { quoteAt: number; windowAt: number },
): MatchedOffer {
  const offer =
    decoded.version === 2
      ? matchV2(decoded, token, job, settings, quoteAt)
      : matchV1(decoded, token, job, settings);
  const { to, value } = decoded.authorization;
  if (!isOfToken(decoded, token)) throw notOffered("it permits another token");
  if (to.toLowerCase() !== token.payTo.toLowerCase()) throw notOffered("it pays to another address");
  if (String(value) !== offer.amount) throw notOffered(`it pays ${value}, and the offer is ${offer.amount}`);
  assertWindow(decoded, settings, windowAt);
  return offer;
}

/** A permit names its token beside the offer that it accepts. */
function isOfToken({ method, authorization }: DecodedPayment, { asset }: Token): boolean {
  return method !== "permit2" || authorization.asset.toLowerCase() === asset.toLowerCase();
}

/**
 * With its quote, the price is the one offered, whatever it is today. A client may drop the quote: then today's offer counts, as in
 * version 1.
 */
function matchV2(
  { accepted, resourceUrl, raw }: PaymentV2,
  token: Token,
  job: Job,
  settings: OfferSettings,
  now: number,
): MatchedOffer {
  const quote = quoteIn(accepted.extra);
  const terms =
    quote === undefined
      ? todaysTerms(job, token, settings, "v2")
      : quotedTerms(accepted, quote, { job, token, settings });
  const requirements = toRequirements(terms, token, quote);
  if (!isSubset(requirements, accepted))
    throw notOffered(
      quote === undefined
        ? "it has no quote, and what it accepts differs from today's offer"
        : "what it accepts differs from what was offered",
    );
  if (resourceUrl !== undefined && !isOfJob(resourceUrl, job, settings))
    throw notOffered("the path of its resource.url is not that of this job");
  if (quote !== undefined && quote.quoteExpiry * 1000 < now) {
    const detail = "the quote has expired; a new one is in this answer";
    throw AppError.public("payment.quote_expired", detail);
  }
  const paymentPayload = inOurWords(raw, job, settings);
  const request = { x402Version: 2, paymentPayload, paymentRequirements: requirements } as const;
  return { request, digest: offerDigest(terms), amount: terms.amount };
}

type Described = { resource?: unknown; extensions?: { bazaar?: unknown } };

/** A payment for a facilitator. Its catalog may list what a payment says of the job, so that is ours. */
function inOurWords(raw: Described, job: Job, { publicUrl }: OfferSettings): object {
  const { extensions: sent, ...payment } = raw;
  const { bazaar: _, ...others } = sent ?? {};
  const bazaar = discoveryOf(job.input)?.bazaar;
  const extensions = { ...others, ...(bazaar && { bazaar }) };
  return {
    ...payment,
    resource: resourceOf(job, publicUrl),
    ...(Object.keys(extensions).length > 0 && { extensions }),
  };
}

/** A payment of version 1 repeats nothing of its offer, so today's offer counts. */
function matchV1({ scheme, raw }: PaymentV1, token: Token, job: Job, settings: OfferSettings): MatchedOffer {
  if (scheme !== "exact") throw notOffered("its scheme is another one");
  const terms = todaysTerms(job, token, settings, "v1");
  const requirements = toRequirementsV1(job, token, terms.amount, settings);
  if (requirements === undefined) throw notSold();
  // Version 1 describes the job in its requirements.
  const { extensions: _, resource: __, ...paymentPayload } = raw as Described;
  const request = { x402Version: 1, paymentPayload, paymentRequirements: requirements } as const;
  return { request, digest: offerDigest(terms), amount: terms.amount };
}

/** The terms of an offer whose quote is ours. */
function quotedTerms(
  { amount, maxTimeoutSeconds }: PaymentV2["accepted"],
  quote: OfferExtra,
  { job, token, settings }: { job: Job; token: Token; settings: OfferSettings },
): OfferTerms {
  const { publicUrl, macSecrets } = settings;
  const terms = termsOf(job, token, amount, { publicUrl, maxTimeoutSeconds, expiry: quote.quoteExpiry });
  if (!isOurOffer(terms, quote, macSecrets)) throw notOffered("its quote is not one of ours for this job");
  return terms;
}

/** The terms on which the job is offered now, for a payment without a quote. */
function todaysTerms(
  job: Job,
  token: Token,
  { publicUrl, maxTimeoutSeconds }: OfferSettings,
  version: "v1" | "v2",
): OfferTerms {
  assertOffered(job);
  const price = job.prices.find((each) => each.token === token);
  if (!price?.versions[version]) throw notSold();
  return termsOf(job, token, String(price.amount), { publicUrl, maxTimeoutSeconds, expiry: NO_EXPIRY });
}

/** Undefined if the payment has no member of a quote. Null is a member. */
function quoteIn(extra: Readonly<Record<string, unknown>>): OfferExtra | undefined {
  if (QUOTE_MEMBERS.every((name) => !Object.hasOwn(extra, name))) return undefined;
  const { quoteDigest, quoteExpiry, quoteMac } = extra;
  if (typeof quoteDigest !== "string" || typeof quoteMac !== "string" || !Number.isSafeInteger(quoteExpiry)) {
    throw notOffered(`it has a part of a quote: send ${QUOTE_MEMBERS.join(", ")} as offered`);
  }
  return { quoteDigest, quoteMac, quoteExpiry: quoteExpiry as number };
}

/**
 * Compares paths alone: clients write the URL that they have called, with a query or with another name of this host. Nobody signs it, so
 * the check only finds mistakes.
 */
function isOfJob(url: string, job: Job, { publicUrl }: OfferSettings): boolean {
  if (!URL.canParse(url, publicUrl)) return false;
  return new URL(url, publicUrl).pathname.replace(/\/$/, "").endsWith(jobPath(job));
}

function notSold(): AppError {
  return notOffered("this job is not sold for this token");
}

/** Our own fields must be equal, in `extra` too. Clients may add to them; what they add binds nobody. */
function isSubset(ours: ReturnType<typeof toRequirements>, theirs: PaymentV2["accepted"]): boolean {
  const { extra, ...core } = ours;
  const areIn = (fields: object, theirFields: Readonly<Record<string, unknown>>) =>
    Object.entries(fields).every(
      ([key, value]) => Object.hasOwn(theirFields, key) && theirFields[key] === value,
    );
  return areIn(core, theirs) && areIn(extra, theirs.extra);
}

/** Whether the payment is valid for long enough to be settled. `now` is in unix milliseconds. Throws `payment.window_unusable`. */
export function assertWindow({ authorization }: DecodedPayment, settings: OfferSettings, now: number): void {
  const nowSeconds = now / 1000;
  const { windowSecondsMax, settleTimeoutSeconds } = settings;
  const [after, before] = [Number(authorization.validAfter), Number(authorization.validBefore)];
  const needed = settleTimeoutSeconds + SETTLE_MARGIN_SECS;
  if (after > nowSeconds) throw unusableWindow("it is not valid yet");
  if (before < nowSeconds + needed) throw unusableWindow(`it ends in less than ${needed} s`);
  if (before > nowSeconds + windowSecondsMax) {
    throw unusableWindow(`it is valid for longer than ${windowSecondsMax} s`);
  }
}

function unusableWindow(detail: string): AppError {
  return AppError.public("payment.window_unusable", detail);
}

function notOffered(detail: string): AppError {
  return AppError.public("payment.not_offered", detail);
}

/** What a client is promised. */
type OfferTerms = {
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

/** The expiry in the terms of a payment without a quote. */
const NO_EXPIRY = 0;

function termsOf(
  { serviceId, jobIndex, operatorQuote }: Job,
  { network, asset, payTo }: Token,
  amount: string,
  bounds: Pick<OfferTerms, "publicUrl" | "maxTimeoutSeconds" | "expiry">,
): OfferTerms {
  const operatorQuoteDigest = operatorQuote?.digest;
  return { serviceId, jobIndex, network, asset, payTo, amount, ...bounds, operatorQuoteDigest };
}

/** The proof of an offer, which a client gets in the requirement's `extra` and gives back unchanged. */
type OfferExtra = { quoteDigest: string; quoteExpiry: number; quoteMac: string };

const QUOTE_MEMBERS = ["quoteDigest", "quoteExpiry", "quoteMac"] as const satisfies (keyof OfferExtra)[];

/** 32 bytes in base64url. The last digit has two bits to spare, which have to be 0: a MAC has one spelling. */
const MAC = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;

/** The job's `X-X402-QUOTE-DIGEST`: the operator's own digest if the price comes from an operator's quote. */
function offerDigest(terms: OfferTerms): string {
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
function isOurOffer(terms: OfferTerms, extra: OfferExtra, secrets: readonly Secret[]): boolean {
  if (extra.quoteDigest !== offerDigest(terms) || !MAC.test(extra.quoteMac)) return false;
  return isSignedByAny(secrets, Buffer.from(extra.quoteMac, "base64url"), Buffer.from(termsDigest(terms)));
}
