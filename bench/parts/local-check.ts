import type { IncomingMessage } from "node:http";
import type { PaymentRequired } from "@x402/core/types";
import { toCatalog } from "../../services/x402-gateway/offer/catalog.ts";
import { toOfferSettings } from "../../services/x402-gateway/offer/offer.ts";
import { identifyPayment, inAcceptedToken, readPayment } from "../../services/x402-gateway/payment/header.ts";
import { matchOffer } from "../../services/x402-gateway/payment/match-offer.ts";
import { parseJobPricing } from "../../shared/config/job-pricing-toml.ts";
import { x402Toml } from "../../shared/config/x402-toml.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { fixedRateOf } from "../../shared/pricing/rates/sources/fixed.ts";
import { type Signed, toHeader } from "../support/payments.ts";
import { PRICING, x402Table } from "../support/sale.ts";
import { median } from "../support/statistics.ts";

/** Microseconds for one payment, each the median of several batches. */
export type LocalCheck = {
  payments: number;
  /** Time to decode and check the payment's header. */
  decodeUs: number;
  /** Time to recover the payment's signer and derive its call. */
  identifyUs: number;
  /** Time to compare the payment with the offer. */
  agreeUs: number;
};

const BATCH = 100;

/**
 * Measures, in this process, how long a gateway takes for those checks of a payment that it makes before it asks other
 * servers. `required` is the content of the gateway's 402 answer, which says what the payments must pay.
 */
export function measureLocalCheck(required: PaymentRequired, signed: readonly Signed[]): LocalCheck {
  const { job, tokens, settings } = sale();
  const now = { quoteAt: systemClock(), windowAt: systemClock() };
  const requests = signed.map((each) => toRequest(toHeader(required, each)));
  const decoded = timeBatches(requests, (req) => readPayment(req) ?? fail());
  const identified = timeBatches(decoded.results, (payment) =>
    inAcceptedToken(identifyPayment(payment, tokens)),
  );
  const agreed = timeBatches(identified.results, (payment) => matchOffer(payment, job, settings, now));
  return {
    payments: agreed.results.length,
    decodeUs: decoded.us,
    identifyUs: identified.us,
    agreeUs: agreed.us,
  };
}

/**
 * Runs a step for each input. The first half of the batches warms up the code; returns the median time per input of the
 * second half.
 */
function timeBatches<Input, Result>(inputs: readonly Input[], step: (input: Input) => Result) {
  const results: Result[] = [];
  const took: number[] = [];
  for (let i = 0; i < inputs.length; i += BATCH) {
    const batch = inputs.slice(i, i + BATCH);
    const startedAt = performance.now();
    for (const input of batch) results.push(step(input));
    took.push(((performance.now() - startedAt) * 1000) / batch.length);
  }
  return { results, us: median(took.slice(took.length / 2)) };
}

/** Builds the same sale as the gateway's, with a facilitator that is never called. */
function sale() {
  const x402 = x402Toml({ env: {} }).parse(x402Table("http://127.0.0.1:1"));
  const { jobs: prices } = parseJobPricing(PRICING);
  const kinds = { supports: () => true };
  const known = { rateOf: fixedRateOf, isTokenValid: () => true, offerable: () => kinds };
  const { tokens, find } = toCatalog(x402, prices, known);
  const job = find({ serviceId: 1, jobIndex: 7 }) ?? fail();
  const settings = toOfferSettings(x402);
  return { job, tokens, settings };
}

function toRequest(header: string): IncomingMessage {
  return { rawHeaders: ["PAYMENT-SIGNATURE", header] } as IncomingMessage;
}

function fail(): never {
  throw new Error("job 7 of service 1 has no price");
}
