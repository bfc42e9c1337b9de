import { openJobs } from "../../shared/queue/jobs.ts";
import type { JobLimits } from "../../shared/queue/limits.ts";
import type { Partitions } from "../../shared/redis/partition.ts";

/** Sets the limits of these jobs in each partition, as a producer does that starts, and removes those of all others. */
export async function limitJobs(
  partitions: Partitions,
  limits: ReadonlyMap<string, JobLimits>,
): Promise<void> {
  for (const each of openJobs(partitions).limitsIn.all) await each.configure(limits);
}

/** The same of one job, or of a gate that is no job's. The others keep theirs. */
export async function limitJob(partitions: Partitions, job: string, limits: JobLimits): Promise<void> {
  for (const each of openJobs(partitions).limitsIn.all) await each.set(job, limits);
}
