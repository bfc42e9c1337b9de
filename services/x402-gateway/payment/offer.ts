import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 as Sdk } from "@x402/core/types/v1";
import type { Secret } from "../../../shared/crypto/secret.ts";
import type { Job, Token } from "../catalog.ts";
import { jobPath } from "../route.ts";
import { type QuoteTerms, quoteDigest, signQuote } from "./offer-mac.ts";

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
