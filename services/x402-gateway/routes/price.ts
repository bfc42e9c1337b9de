import type { PriceAnswer } from "../../../shared/openapi/x402-answers.ts";
import { settlementEndpoint, toSettlementOption } from "../../../shared/pricing/prices.ts";
import { assertOffered, type Job } from "../offer/catalog.ts";

/** GET …/price: returns a job's price, in wei and in each accepted token. Throws `price.unavailable`. */
export function toPriceAnswer(job: Job, publicUrl: string): PriceAnswer {
  assertOffered(job);
  return toPricedJob(job, publicUrl);
}

/** Returns a job's price like `toPriceAnswer`, but does not throw if the job has no price in any token now. */
export function toPricedJob(job: Job, publicUrl: string): PriceAnswer {
  const endpoint = settlementEndpoint(publicUrl, job);
  return {
    service_id: job.serviceId,
    job_index: job.jobIndex,
    price_wei: String(job.priceWei),
    settlement_options: job.prices.map((offer) => ({
      protocol: "x402",
      ...toSettlementOption(offer),
      x402_endpoint: endpoint,
    })),
    policy: job.policy.mode,
  };
}
