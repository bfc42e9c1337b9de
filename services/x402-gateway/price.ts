import type { ServerResponse } from "node:http";
import type { Job } from "./catalogue.ts";
import { jobPath } from "./route.ts";
import { sendJson } from "./send-json.ts";

/** GET …/price: what a job costs, in wei and in each token that is taken. */
export function answerPrice(res: ServerResponse, job: Job, publicUrl: string): void {
  const endpoint = `${publicUrl}${jobPath(job)}`;
  sendJson(res, 200, {
    service_id: job.serviceId,
    job_index: job.jobIndex,
    price_wei: String(job.priceWei),
    settlement_options: job.prices.map(({ token, amount }) => ({
      protocol: "x402",
      network: token.network,
      asset: token.asset,
      symbol: token.symbol,
      amount: String(amount),
      pay_to: token.payTo,
      scheme: "exact",
      x402_endpoint: endpoint,
    })),
    policy: job.policy.mode,
  });
}
