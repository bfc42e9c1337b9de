import { UINT256_MAX } from "../ethereum/encoding.ts";
import {
  type JobIds,
  jobKey,
  NOT_A_JOB_INDEX,
  NOT_A_SERVICE_ID,
  parseJobIndex,
  parseServiceId,
} from "../job-call/job-ids.ts";
import { isTable } from "./fields.ts";
import type { Problem } from "./problem.ts";

export type JobPrice = JobIds & { priceWei: bigint };

/** Every job that has a price, by `jobKey`. */
export type PriceList = ReadonlyMap<string, JobPrice>;

/** `job_pricing.toml`: the prices that can be read, and what is wrong with the others. */
export function parseJobPricing(table: unknown): { jobs: PriceList; problems: readonly Problem[] } {
  const rows = Object.entries(table as object).flatMap(parseService);
  const jobs = rows.filter((row) => "priceWei" in row);
  return {
    jobs: new Map(jobs.map((job) => [jobKey(job), job])),
    problems: rows.filter((row) => "message" in row),
  };
}

function parseService([service, prices]: [string, unknown]): (JobPrice | Problem)[] {
  const serviceId = parseServiceId(service);
  if (serviceId === undefined) return [{ path: [service], message: NOT_A_SERVICE_ID }];
  if (!isTable(prices))
    return [{ path: [service], message: 'must be a table: [<service_id>], then <job_index> = "<wei>"' }];
  return Object.entries(prices).map(([job, price]) => {
    const parsed = parseJob(job, price);
    return typeof parsed === "string" ? { path: [service, job], message: parsed } : { serviceId, ...parsed };
  });
}

/** The job, or what is wrong with it. */
function parseJob(job: string, price: unknown): Omit<JobPrice, "serviceId"> | string {
  const jobIndex = parseJobIndex(job);
  if (jobIndex === undefined) return NOT_A_JOB_INDEX;
  const priceWei = parsePrice(price);
  return typeof priceWei === "string" ? priceWei : { jobIndex, priceWei };
}

const DECIMAL = /^(?:0|[1-9]\d*)$/;

function parsePrice(price: unknown): bigint | string {
  if (typeof price === "number" || typeof price === "bigint") return 'must be quoted, as "1000000000000000"';
  if (typeof price !== "string" || !DECIMAL.test(price)) return 'must be whole wei, as "1000000000000000"';
  return priceProblem(BigInt(price)) ?? BigInt(price);
}

/** Why a job cannot have this price, in wei; undefined if it can. */
export function priceProblem(priceWei: bigint): string | undefined {
  if (priceWei <= 0n) return "must be above 0";
  return priceWei > UINT256_MAX ? "is above 2^256-1" : undefined;
}
