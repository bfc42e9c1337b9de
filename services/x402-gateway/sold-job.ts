import { AppError } from "../../shared/errors/app-error.ts";
import type { JobIds } from "../../shared/job-call/job-ids.ts";
import type { Catalog, Job } from "./catalog.ts";

/** The job of these ids, if it has a price. Throws `job.not_found`. */
export function pricedJob(catalog: Catalog, ids: JobIds): Job {
  const job = catalog.find(ids);
  if (job !== undefined) return job;
  throw new AppError("job.not_found", {
    reason: `there is no price for job ${ids.jobIndex} of service ${ids.serviceId}`,
    publicDetail: "job not found",
  });
}

/** The job of these ids, if it is sold. Throws `job.not_found` and `job.disabled`. */
export function soldJob(catalog: Catalog, ids: JobIds): Job {
  const job = pricedJob(catalog, ids);
  if (job.policy.mode === "disabled")
    throw new AppError("job.disabled", { reason: "its policy is disabled" });
  return job;
}

/** After this long a rate may be known again. */
const RATE_RETRY_MS = 10_000;

/** Throws `price.unavailable` where no token has a rate that makes a price of the job's. */
export function assertOffered(job: Job): void {
  const error = noOffer(job);
  if (error !== undefined) throw error;
}

/** What `assertOffered` throws, if anything. */
export function noOffer({ prices, jobIndex, serviceId }: Job): AppError | undefined {
  if (prices.length > 0) return undefined;
  return new AppError("price.unavailable", {
    reason: `no token has a current rate for job ${jobIndex} of service ${serviceId}`,
    publicDetail: "No accepted token has a current rate; nothing was charged.",
    retryAfterMs: RATE_RETRY_MS,
  });
}
