import type { ServerResponse } from "node:http";
import { settlementEndpoint, toSettlementOption } from "../../../shared/pricing/prices.ts";
import type { Job } from "../catalog.ts";
import { sendJson } from "../send-json.ts";
import { assertOffered } from "../sold-job.ts";

/** GET …/price: what a job costs, in wei and in each token that is taken. Throws `price.unavailable`. */
export function answerPrice(res: ServerResponse, job: Job, publicUrl: string): void {
  assertOffered(job);
  const endpoint = settlementEndpoint(publicUrl, job);
  sendJson(res, 200, {
    service_id: job.serviceId,
    job_index: job.jobIndex,
    price_wei: String(job.priceWei),
    settlement_options: job.prices.map((offer) => ({
      protocol: "x402",
      ...toSettlementOption(offer),
      x402_endpoint: endpoint,
    })),
    policy: job.policy.mode,
  });
}
