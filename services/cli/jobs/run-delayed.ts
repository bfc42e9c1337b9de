import type { DelayedRun } from "../../../shared/console/jobs.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted } from "../text.ts";
import { forEachJob, isEverywhere, type JobOptions, nameWithPorts, partitionsText } from "./each-job.ts";

/**
 * `postern jobs run-delayed`: makes the delayed calls of these jobs wait in the queue at once. So producers attempt
 * them before their time. Exit code 1 if one of the jobs has no delayed call, or if a partition cannot be reached.
 */
export function runDelayedCalls(
  deps: ProgramDeps,
  names: readonly string[],
  options: JobOptions,
): Promise<number> {
  return forEachJob(deps, names, options, async ({ runDelayed }, name) => {
    const answer = await runDelayed({ job: name, reason: "postern jobs run-delayed" });
    return { answer, isDone: answer.calls > 0 && isEverywhere(answer), line: inWords(answer) };
  });
}

function inWords(answer: DelayedRun): string {
  const { calls, has_queue, job } = answer;
  const places = partitionsText(answer, "left out");
  if (calls === 0)
    return `${nameWithPorts(job)} has no delayed calls${places}${has_queue ? "" : ", and no queue"}`;
  const when = job.state === "paused" ? "once the job is resumed" : "now";
  return `${nameWithPorts(job)}: ${counted(calls, "delayed call")} can run ${when}${places}`;
}
