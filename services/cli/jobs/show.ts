import type { JobView } from "../../../shared/console/jobs.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { duration, facts, jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { nameWithPorts } from "./each-job.ts";
import { limitsText, stateText } from "./list.ts";

export type ShowOptions = OperationTarget & { json?: boolean };

/** `postern jobs show`: prints the counts, limits and pause of one job. Exit code 1 if it has no queue and no setting. */
export function showJob(deps: ProgramDeps, name: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async ({ getJob }) => {
    const job = await getJob({ job: name });
    deps.print(options.json ? jsonLine(job) : inWords(job));
    return EXIT.ok;
  });
}

function inWords(job: JobView): string {
  const { waiting, delayed, held, active, failed, oldest_age_ms: oldestMs } = job;
  return facts([
    ["job", nameWithPorts(job)],
    ["state", stateText(job)],
    ["origins", job.origins.join(", ")],
    ["waiting", `${waiting}${oldestMs === null ? "" : `, the oldest for ${duration(oldestMs)}`}`],
    ["delayed", String(delayed)],
    ["held", String(held)],
    ["in flight", String(active)],
    ["failed", String(failed)],
    ["limits", limitsText(job)],
  ]);
}
