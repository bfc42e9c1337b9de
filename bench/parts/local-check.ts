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

/** Times in microseconds for one payment. Each is the median of several batches. */
export type LocalCheck = {
  payments: number;
  /** Time to decode and check the payment's header. */
  decodeUs: number;
  /** Time to recover the payment's signer from the signature, and to derive the id of its call. */
  identifyUs: number;
  /** Time to compare the payment with the offer. */
  agreeUs: number;
};

const BATCH = 100;

/**
 * Measures how long a payment gateway takes for its local checks of a payment. The gateway makes them before it asks the
 * facilitator or a node. The checks run in this process, and no gateway takes part. `required` is the content of the
 * gateway's 402 answer, which names the amount, token and recipient of the payments.
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
 * Runs `step` for each input, in batches, and measures the time of each batch. Returns the results, and the median time for
 * one input. The first half of the batches does not count, because Node optimizes the code during it.
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

/**
 * Builds the job and the settings with which the measured gateway sells. The address of the facilitator is a dummy, because
 * local checks do not call it.
 */
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
