import { jobKey } from "../../shared/call/job-ids.ts";
import type { JobPrice, PriceList } from "../../shared/config/job-pricing-toml.ts";

export function toPriceList(jobs: Iterable<JobPrice>): PriceList {
  return new Map([...jobs].map((job) => [jobKey(job), job]));
}
