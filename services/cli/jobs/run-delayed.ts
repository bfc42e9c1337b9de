import type { DelayedRun } from "../../../shared/console/jobs.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted } from "../text.ts";
import { type JobOptions, named, toEachJob } from "./each-job.ts";

/** `postern jobs run-delayed`: the delayed calls of these jobs are taken before their time. 1 if one of them has none. */
export function runDelayedCalls(
  deps: ProgramDeps,
  names: readonly string[],
  options: JobOptions,
): Promise<number> {
  return toEachJob(deps, names, options, async ({ runDelayed }, name) => {
    const answer = await runDelayed({ job: name, reason: "postern jobs run-delayed" });
    return { answer, isDone: answer.calls > 0, line: inWords(answer) };
  });
}

function inWords({ calls, has_queue, job }: DelayedRun): string {
  if (calls === 0) return `${named(job)} has no delayed calls${has_queue ? "" : ", and no queue"}`;
  const when = job.state === "paused" ? "once the job is resumed" : "now";
  return `${named(job)}: ${counted(calls, "delayed call")} can run ${when}`;
}
