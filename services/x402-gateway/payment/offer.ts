import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 as Sdk } from "@x402/core/types/v1";
import { SETTLE_MARGIN_SECS } from "../../../shared/config/x402-toml.ts";
import { hmacSha256, isSignedByAny } from "../../../shared/crypto/hmac.ts";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../../shared/errors/codes.ts";
import { assertOffered, type Job, type Token } from "../catalog.ts";
import { jobPath } from "../route.ts";
import type { DecodedPayment, TakenPayment } from "./header.ts";

/** Without `outputSchema`, which version 1's clients take absent and refuse as null. */
export type PaymentRequirementsV1 = Omit<Sdk, "outputSchema">;

export type OfferSettings = {
  publicUrl: string;
  maxTimeoutSeconds: number;
  quoteTtlSeconds: number;
  /** The first signs, all are accepted. */
  quoteSecrets: readonly [Secret, ...Secret[]];
};

/** Offers made within this time share their expiry, so that they can be made once and sent often. */
const SHARED_SECONDS = 10;

/** When an offer made now expires: after at least the promised time, or with the quote it is by. Unix seconds. */
export function expiryOf({ quote }: Job, { quoteTtlSeconds }: OfferSettings, nowSeconds: number): number {
  const promised = (Math.floor(nowSeconds / SHARED_SECONDS) + 1) * SHARED_SECONDS + quoteTtlSeconds;
  return quote === undefined ? promised : Math.min(promised, Number(quote.quote.expiry));
}

export function termsOf(
  job: Job,
  token: Token,
  rest: Pick<QuoteTerms, "amount" | "expiry" | "maxTimeoutSeconds">,
): QuoteTerms {
  const { serviceId, jobIndex, quote } = job;
  const { network, asset, payTo } = token;
  return { serviceId, jobIndex, network, asset, payTo, platformQuote: quote?.digest, ...rest };
}

/** Version 2: one offer for each token, each with a signed quote. */
export function toOffers(job: Job, settings: OfferSettings, expiry: number): PaymentRequirements[] {
  const { maxTimeoutSeconds, quoteSecrets } = settings;
  return job.prices.map(({ token, amount }) => {
    const terms = termsOf(job, token, { amount: String(amount), expiry, maxTimeoutSeconds });
    return toRequirements(terms, {
      name: token.name,
      version: token.version,
      ...signQuote(terms, quoteSecrets[0]),
    });
  });
}

export function toRequirements(terms: QuoteTerms, extra: Record<string, unknown>): PaymentRequirements {
  const { network, asset, payTo, amount, maxTimeoutSeconds } = terms;
  return {
    scheme: "exact",
    network: network as PaymentRequirements["network"],
    asset,
    amount,
    payTo,
    maxTimeoutSeconds,
    extra,
  };
}

/** Version 1: one offer for each token whose network its clients know; a single other one would spoil them all. */
export function toOffersV1(job: Job, settings: OfferSettings): PaymentRequirementsV1[] {
  return job.prices.flatMap(({ token, amount }) => {
    const offer = toRequirementsV1({ job, token, amount: String(amount) }, settings);
    return offer === undefined ? [] : [offer];
  });
}

type Priced = { job: Job; token: Token; amount: string };

export function toRequirementsV1(
  { job, token, amount }: Priced,
  { publicUrl, maxTimeoutSeconds }: OfferSettings,
): PaymentRequirementsV1 | undefined {
  if (token.v1Network === undefined) return undefined;
  return {
    scheme: "exact",
    network: token.v1Network as PaymentRequirementsV1["network"],
    maxAmountRequired: amount,
    resource: `${publicUrl}${jobPath(job)}`,
    description: descriptionOf(job),
    mimeType: "application/json",
    payTo: token.payTo,
    maxTimeoutSeconds,
    asset: token.asset,
    extra: { name: token.name, version: token.version },
  };
}

export function descriptionOf({ serviceId, jobIndex }: Job): string {
  return `Job ${jobIndex} of service ${serviceId}`;
}

/** The digest of what version 1 was offered: the same terms, with no expiry. */
export function digestV1({ job, token, amount }: Priced, { maxTimeoutSeconds }: OfferSettings): string {
  return quoteDigest(termsOf(job, token, { amount, expiry: 0, maxTimeoutSeconds }));
}

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

/** A payment that fits an offer of this job: what the facilitator is asked with, and the digest of what was offered. */
export type Agreed = { requirements: object; quoteDigest: string; amount: string };

export type AgreeSettings = OfferSettings & {
  /** Time a settle request has; an authorization that ends sooner could not be settled. */
  settleTimeoutSeconds: number;
};

/** How far a payer's clock may be ahead of ours. */
const CLOCK_SKEW_SECONDS = 30;

/**
 * All that can be checked without asking anybody: offer and quote, recipient, value, route and time window. Throws
 * `payment.not_offered`, `payment.quote_expired` and `payment.window_unusable`.
 */
export function agree(payment: TakenPayment, job: Job, { settings, now }: Asked): Agreed {
  const { decoded } = payment;
  const agreed =
    decoded.version === 2
      ? agreeV2(payment, decoded, { job, settings, now })
      : agreeV1(payment, decoded, { job, settings });
  const { to, value } = decoded.authorization;
  if (to.toLowerCase() !== payment.token.payTo.toLowerCase()) throw notOffered("it pays to another address");
  if (String(value) !== agreed.amount)
    throw notOffered(`it pays ${value}, and the offer is ${agreed.amount}`);
  assertWindow(decoded, settings, now / 1000);
  return agreed;
}

/** `now` in unix milliseconds. */
type Asked = { settings: AgreeSettings; now: number };
type DecodedV2 = Extract<DecodedPayment, { version: 2 }>;
type DecodedV1 = Extract<DecodedPayment, { version: 1 }>;

/** The price is the quoted one, whatever it is today, as long as the quote is ours and lasts. */
function agreeV2(
  { token }: TakenPayment,
  { accepted, resourceUrl }: DecodedV2,
  { job, settings, now }: Asked & { job: Job },
): Agreed {
  const quote = quoteIn(accepted.extra);
  const { amount, maxTimeoutSeconds } = accepted;
  const terms = termsOf(job, token, { amount, maxTimeoutSeconds, expiry: quote.quoteExpiry });
  if (!isQuoteOf(terms, quote, settings.quoteSecrets))
    throw notOffered("its quote is not one of ours for this job");
  const requirements = toRequirements(terms, { name: token.name, version: token.version, ...quote });
  if (!isSubset(requirements, accepted)) throw notOffered("what it accepts differs from what was offered");
  if (resourceUrl !== undefined && resourceUrl !== `${settings.publicUrl}${jobPath(job)}`) {
    throw notOffered("its resource is another one");
  }
  if (quote.quoteExpiry * 1000 < now)
    throw refused("payment.quote_expired", "the quote has expired; a new one is in this answer");
  return { requirements, quoteDigest: quote.quoteDigest, amount };
}

/** Version 1 gives nothing back of what it was offered: today's offers are what counts. */
function agreeV1(
  { token }: TakenPayment,
  { scheme }: DecodedV1,
  { job, settings }: { job: Job; settings: AgreeSettings },
): Agreed {
  if (scheme !== "exact") throw notOffered("its scheme is another one");
  assertOffered(job);
  const price = job.prices.find((each) => each.token === token);
  const priced = price && { job, token, amount: String(price.amount) };
  const requirements = priced && toRequirementsV1(priced, settings);
  if (priced === undefined || requirements === undefined)
    throw notOffered("this job is not sold for this token");
  return { requirements, quoteDigest: digestV1(priced, settings), amount: priced.amount };
}

function quoteIn({ quoteDigest, quoteExpiry, quoteMac }: Readonly<Record<string, unknown>>): QuoteExtra {
  if (typeof quoteDigest !== "string" || typeof quoteMac !== "string" || !Number.isSafeInteger(quoteExpiry)) {
    throw notOffered("it carries no quote of ours");
  }
  return { quoteDigest, quoteMac, quoteExpiry: quoteExpiry as number };
}

/** Core fields equal; of `extra` only what is ours, since clients may add to it. */
function isSubset(ours: ReturnType<typeof toRequirements>, theirs: DecodedV2["accepted"]): boolean {
  const { extra, ...core } = ours;
  const { extra: theirExtra, ...theirCore } = theirs;
  return (
    isDeepStrictEqual(core, theirCore) &&
    Object.entries(extra).every(([key, value]) => Object.hasOwn(theirExtra, key) && theirExtra[key] === value)
  );
}

function assertWindow({ authorization }: DecodedPayment, settings: AgreeSettings, nowSeconds: number): void {
  const { maxTimeoutSeconds, settleTimeoutSeconds } = settings;
  const [after, before] = [Number(authorization.validAfter), Number(authorization.validBefore)];
  const needed = settleTimeoutSeconds + SETTLE_MARGIN_SECS;
  if (after > nowSeconds) throw window("it is not valid yet");
  if (before < nowSeconds + needed) throw window(`it ends in less than ${needed} s`);
  if (before > nowSeconds + maxTimeoutSeconds + CLOCK_SKEW_SECONDS) {
    throw window(`it is valid for longer than ${maxTimeoutSeconds} s`);
  }
}

function window(detail: string): AppError {
  return refused("payment.window_unusable", detail);
}

function notOffered(detail: string): AppError {
  return refused("payment.not_offered", detail);
}

function refused(code: ErrorCode, detail: string): AppError {
  return AppError.public(code, detail);
}
