import { openJobs } from "../../shared/queue/jobs.ts";
import type { JobLimits } from "../../shared/queue/limits.ts";
import type { Partitions } from "../../shared/redis/partition.ts";

/** Sets the limits of these jobs in each partition, and removes all other limits, as a starting producer does. */
export async function limitJobs(
  partitions: Partitions,
  limits: ReadonlyMap<string, JobLimits>,
): Promise<void> {
  for (const each of openJobs(partitions).limitsIn.all) await each.configure(limits);
}

/** Sets the limits of one job, or of a gate that is not a job. Other limits stay. */
export async function limitJob(partitions: Partitions, job: string, limits: JobLimits): Promise<void> {
  for (const each of openJobs(partitions).limitsIn.all) await each.set(job, limits);
}
