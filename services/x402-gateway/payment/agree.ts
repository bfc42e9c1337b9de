import { isDeepStrictEqual } from "node:util";
import { SETTLE_MARGIN_SECS } from "../../../shared/config/x402-toml.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../../shared/errors/codes.ts";
import type { Job } from "../catalog.ts";
import { jobPath } from "../route.ts";
import { assertOffered } from "../sold-job.ts";
import type { DecodedPayment } from "./header.ts";
import { digestV1, type OfferSettings, termsOf, toRequirements, toRequirementsV1 } from "./offer.ts";
import { isQuoteOf, type QuoteExtra } from "./offer-mac.ts";
import type { TakenPayment } from "./signer.ts";

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
