import { SETTLE_MARGIN_SECS } from "../../../shared/config/x402-toml.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { discoveryOf, resourceOf } from "../../../shared/pricing/discovery.ts";
import { assertOffered, type Job, jobPath, type Token } from "../offer/catalog.ts";
import {
  isOurOffer,
  type OfferExtra,
  type OfferSettings,
  type OfferTerms,
  offerDigest,
  termsOf,
  toRequirements,
  toRequirementsV1,
  UPFRONT,
} from "../offer/offer.ts";
import { SCHEMES } from "../schemes/registry.ts";
import type { AcceptedPayment, DecodedPayment } from "./header.ts";

/** Offer that a payment matches, as the request for the facilitator, the offer's digest and its amount. */
export type MatchedOffer = { request: FacilitatorRequest; digest: string; amount: string };

type PaymentV1 = Extract<DecodedPayment, { version: 1 }>;
type PaymentV2 = Extract<DecodedPayment, { version: 2 }>;

/**
 * Finds the offer of this job that a payment matches, without any call to another service. Compares terms and MAC, recipient,
 * value, route and validity times.
 * `quoteAt` is the time for the quote's expiry. It is by Redis' clock, which all gateways share. `windowAt` is the time for the
 * payment's validity, which the chain will check later. Both are in unix milliseconds. Throws `payment.not_offered`,
 * `payment.quote_expired` and `payment.window_unusable`.
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
  if (!paysToken(decoded, token)) throw notOffered("the permit is for another token");
  if (to.toLowerCase() !== token.payTo.toLowerCase()) throw notOffered("it pays another address");
  if (!SCHEMES[token.scheme].pays(value, BigInt(offer.amount)))
    throw notOffered(`it pays ${value}, and the offer is ${offer.amount}`);
  assertWindow(decoded, settings, windowAt);
  return offer;
}

/**
 * Whether the payment is in this token. The payment's `accepted` names the token, and the signed text of a Permit2 transfer names
 * one too. Both must be the same.
 */
function paysToken({ authorization }: DecodedPayment, { asset }: Token): boolean {
  return (authorization.asset ?? asset).toLowerCase() === asset.toLowerCase();
}

/**
 * Matches a payment of version 2. If it returns the gateway's signed quote, the price in the quote counts, even if the job's
 * price has changed since. A client may leave the quote out. Then the payment must match the current offer, as in version 1.
 */
function matchV2(
  { accepted, resourceUrl, raw }: PaymentV2,
  token: Token,
  job: Job,
  settings: OfferSettings,
  now: number,
): MatchedOffer {
  const quote = readQuote(accepted.extra);
  const terms =
    quote === undefined
      ? todaysTerms(job, token, settings, "v2")
      : quotedTerms(accepted, quote, { job, token, settings });
  const requirements = toRequirements(terms, token, { ...quote, ...readFlow(accepted.extra) });
  if (!isSubset(requirements, accepted))
    throw notOffered(
      quote === undefined
        ? "it has no quote, and accepted differs from the current offer"
        : "accepted differs from the offer",
    );
  if (resourceUrl !== undefined && !isUrlOfJob(resourceUrl, job, settings))
    throw notOffered("the path of resource.url does not match this job");
  if (quote !== undefined && quote.quoteExpiry * 1000 < now) {
    const detail = "the quote has expired; a new one is in this answer";
    throw AppError.public("payment.quote_expired", detail);
  }
  const paymentPayload = withOurDescription(raw, job, settings);
  const request = { x402Version: 2, paymentPayload, paymentRequirements: requirements } as const;
  return { request, digest: offerDigest(terms), amount: terms.amount };
}

type Described = { resource?: unknown; extensions?: { bazaar?: unknown } };

/**
 * Returns the payment for a facilitator. A client can write any description of the job into its payment, and a facilitator may
 * publish it in its catalog. So the gateway replaces it with its own description.
 */
function withOurDescription(raw: Described, job: Job, { shop }: OfferSettings): object {
  const { extensions: sent, ...payment } = raw;
  const { bazaar: _, ...others } = sent ?? {};
  const bazaar = discoveryOf(job)?.bazaar;
  const extensions = { ...others, ...(bazaar && { bazaar }) };
  return {
    ...payment,
    resource: resourceOf(job, shop),
    ...(Object.keys(extensions).length > 0 && { extensions }),
  };
}

/**
 * Matches a payment of version 1, which does not return its offer. Its amount must be that of the current offer, or of an offer
 * from before a reload of the configuration.
 */
function matchV1(
  { scheme, raw, authorization }: PaymentV1,
  token: Token,
  job: Job,
  settings: OfferSettings,
): MatchedOffer {
  if (scheme !== token.scheme) throw notOffered("its scheme is not supported");
  const today = todaysTerms(job, token, settings, "v1");
  const { pays } = SCHEMES[token.scheme];
  const amounts = [BigInt(today.amount), ...(settings.earlierAmounts?.(job, token) ?? [])];
  const amount = amounts.find((each) => pays(authorization.value, each));
  const terms = amount === undefined ? today : { ...today, amount: String(amount) };
  const requirements = toRequirementsV1(job, token, terms.amount, settings);
  if (requirements === undefined) throw notSold();
  // In version 1, the gateway's requirements describe the job, so a description in the payment is left out.
  const { extensions: _, resource: __, ...paymentPayload } = raw as Described;
  const request = { x402Version: 1, paymentPayload, paymentRequirements: requirements } as const;
  return { request, digest: offerDigest(terms), amount: terms.amount };
}

/**
 * Returns the terms of the offer that a payment with a quote returns. Throws unless this gateway has signed exactly these terms.
 */
function quotedTerms(
  { amount, maxTimeoutSeconds }: PaymentV2["accepted"],
  quote: OfferExtra,
  { job, token, settings }: { job: Job; token: Token; settings: OfferSettings },
): OfferTerms {
  const { publicUrl, macSecrets } = settings;
  const terms = termsOf(job, token, amount, { publicUrl, maxTimeoutSeconds, expiry: quote.quoteExpiry });
  if (!isOurOffer(terms, quote, macSecrets))
    throw notOffered("its quote was not made by this gateway for this job");
  return terms;
}

/** Returns the terms of the current offer, for a payment without a quote. */
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

/** Reads the gateway's quote in `extra`. Undefined if none of its members is present. A member that is null counts as present. */
function readQuote(extra: Readonly<Record<string, unknown>>): OfferExtra | undefined {
  if (QUOTE_MEMBERS.every((name) => !Object.hasOwn(extra, name))) return undefined;
  const { quoteDigest, quoteExpiry, quoteMac } = extra;
  if (typeof quoteDigest !== "string" || typeof quoteMac !== "string" || !Number.isSafeInteger(quoteExpiry)) {
    throw notOffered(`its quote is incomplete: return ${QUOTE_MEMBERS.join(", ")} as offered`);
  }
  return { quoteDigest, quoteMac, quoteExpiry: quoteExpiry as number };
}

/**
 * Reads the payment flow that a payment returns with its offer. It may be absent or null: older offers did not name a flow, and
 * clients write null for a member that they do not know.
 */
function readFlow({ paymentFlow = null }: Readonly<Record<string, unknown>>): typeof UPFRONT | undefined {
  if (paymentFlow === null) return undefined;
  if (paymentFlow === UPFRONT.paymentFlow) return UPFRONT;
  throw notOffered(`accepted.extra.paymentFlow must be ${UPFRONT.paymentFlow}, as offered, or absent`);
}

/**
 * Whether `resource.url` is the URL of this job. Only the paths are compared, because clients may add a query, or may know this
 * host under another name. The URL is not signed, so this check only finds mistakes of clients.
 */
function isUrlOfJob(url: string, job: Job, { publicUrl }: OfferSettings): boolean {
  if (!URL.canParse(url, publicUrl)) return false;
  return new URL(url, publicUrl).pathname.replace(/\/$/, "").endsWith(jobPath(job));
}

/**
 * Expiry in the terms of a payment without a quote. It is only a placeholder, because the current offer counts for such a
 * payment.
 */
const NO_EXPIRY = 0;

const QUOTE_MEMBERS = ["quoteDigest", "quoteExpiry", "quoteMac"] as const satisfies (keyof OfferExtra)[];

function notSold(): AppError {
  return notOffered("this job is not sold for this token");
}

/**
 * Whether the `accepted` of a payment repeats the offer. Each member of the gateway's offer must have an equal value there,
 * including those in `extra`. Members that a client has added have no effect.
 */
function isSubset(ours: ReturnType<typeof toRequirements>, theirs: PaymentV2["accepted"]): boolean {
  const { extra, ...core } = ours;
  const areIn = (fields: object, theirFields: Readonly<Record<string, unknown>>) =>
    Object.entries(fields).every(
      ([key, value]) => Object.hasOwn(theirFields, key) && theirFields[key] === value,
    );
  return areIn(core, theirs) && areIn(extra, theirs.extra);
}

/**
 * Asserts that the payment is valid now, for long enough to be settled, and not for too long. `now` is in unix milliseconds.
 * Throws `payment.window_unusable`.
 */
export function assertWindow({ authorization }: DecodedPayment, settings: OfferSettings, now: number): void {
  const nowSeconds = now / 1000;
  const { windowSecondsMax, settleTimeoutSeconds } = settings;
  const [after, before] = [Number(authorization.validAfter), Number(authorization.validBefore)];
  const needed = settleTimeoutSeconds + SETTLE_MARGIN_SECS;
  if (after > nowSeconds) throw unusableWindow("it is not valid yet");
  if (before < nowSeconds + needed) throw unusableWindow(`it expires in less than ${needed} s`);
  if (before > nowSeconds + windowSecondsMax) {
    throw unusableWindow(`it is valid for more than ${windowSecondsMax} s`);
  }
}

function unusableWindow(detail: string): AppError {
  return AppError.public("payment.window_unusable", detail);
}

function notOffered(detail: string): AppError {
  return AppError.public("payment.not_offered", detail);
}
