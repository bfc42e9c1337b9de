import type { JobView } from "../../../shared/console/jobs.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { createListing } from "../listing.ts";
import { pagesOf } from "../pagination.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, duration, toSeconds, withAge } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ListOptions = OperationTarget & { json?: boolean };

const PAGE_MAX = 500;

/**
 * `postern jobs list`: prints each job that has calls or a setting such as a pause. Each line has the numbers of its
 * calls in each state, over all origins, and its limits and pause.
 */
export function listJobs(deps: ProgramDeps, options: ListOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const listing = createListing<JobView>(deps, {
      columns: [
        { heading: "JOB" },
        { heading: "WAITING" },
        { heading: "DELAYED" },
        { heading: "HELD" },
        { heading: "IN FLIGHT" },
        { heading: "FAILED", tone: (count) => (count === "0" ? undefined : "bad") },
        { heading: "OLDEST" },
        { heading: "LIMITS", cutTo: 10 },
        { heading: "STATE", cutTo: 20, tone: (state) => (state === "running" ? "good" : "attention") },
      ],
      toCells,
      toJson: (job) => job,
      toName: ({ job }) => job,
    });
    let [listed, paused] = [0, 0];
    const read = (cursor?: string) => operations.listJobs({ limit: PAGE_MAX, cursor });
    for await (const job of pagesOf(read, ({ jobs }) => jobs)) {
      listing.add(job);
      listed += 1;
      if (job.state === "paused") paused += 1;
    }
    listing.end(`${counted(listed, "job")}, ${paused} paused`);
    return EXIT.ok;
  });
}

function toCells(job: JobView): string[] {
  const { waiting, delayed, held, active, failed, oldest_age_ms: oldestMs } = job;
  const oldest = oldestMs === null ? "-" : duration(oldestMs);
  const counts = [waiting, delayed, held, active, failed].map(String);
  return [job.job, ...counts, oldest, limitsText(job), stateText(job)];
}

/** Says whether producers take the calls of a job, and if not, why. */
export function stateText(job: JobView): string {
  switch (job.state) {
    case "running":
      return "running";
    case "throttled":
      return `throttled until ${job.throttled_until === undefined ? "?" : withAge(toSeconds(job.throttled_until))} at its runner's request`;
    case "paused":
      return pausedText(job);
  }
}

/** Says when a job was paused, by whom and why. */
export function pausedText({
  paused,
  paused_partitions,
}: Pick<JobView, "paused" | "paused_partitions">): string {
  if (paused === undefined) return "paused";
  const where =
    paused_partitions === undefined || paused_partitions.paused === paused_partitions.of
      ? ""
      : ` (in ${paused_partitions.paused} of ${paused_partitions.of} partitions)`;
  return `paused since ${withAge(toSeconds(paused.at))} by ${paused.by}: ${paused.reason}${where}`;
}

export function limitsText({ concurrency, rate }: JobView): string {
  const limits = [
    ...(concurrency === null ? [] : [`${concurrency} at once`]),
    ...(rate === null ? [] : [`${rate.calls} per ${rate.period_ms} ms`]),
  ];
  return limits.length === 0 ? "-" : limits.join(", ");
}
