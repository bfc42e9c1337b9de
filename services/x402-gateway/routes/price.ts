import { settlementEndpoint, toSettlementOption } from "../../../shared/pricing/prices.ts";
import { assertOffered, type Job } from "../offer/catalog.ts";

/** GET …/price: what a job costs, in wei and in each token that is taken. Throws `price.unavailable`. */
export function toPriceAnswer(job: Job, publicUrl: string) {
  assertOffered(job);
  return toPricedJob(job, publicUrl);
}

/** The same of a job that may have a price in no token now. */
export function toPricedJob(job: Job, publicUrl: string) {
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
