import { AppError } from "../../shared/errors/app-error.ts";
import type { JobIds } from "../../shared/prices/price-list.ts";
import type { Catalogue, Job } from "./catalogue.ts";

/** The job of these ids, if it has a price. Throws `job.not_found`. */
export function pricedJob(catalogue: Catalogue, ids: JobIds): Job {
  const job = catalogue.find(ids);
  if (job !== undefined) return job;
  throw new AppError("job.not_found", {
    reason: `there is no price for job ${ids.jobIndex} of service ${ids.serviceId}`,
    publicDetail: "job not found",
  });
}

/** The job of these ids, if it is sold. Throws `job.not_found` and `job.disabled`. */
export function soldJob(catalogue: Catalogue, ids: JobIds): Job {
  const job = pricedJob(catalogue, ids);
  if (job.policy.mode === "disabled")
    throw new AppError("job.disabled", { reason: "its policy is disabled" });
  return job;
}
