import type { ProgramDeps } from "../program-deps.ts";
import { type JobOptions, named, toEachJob } from "./each-job.ts";
import { pausedText } from "./list.ts";

export type PauseOptions = JobOptions & { reason: string };

/** `postern jobs pause`: no producer takes calls of these jobs. 1 if one of them is paused already. */
export function pauseJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: PauseOptions,
): Promise<number> {
  return toEachJob(deps, names, options, async ({ pauseJob }, name) => {
    const answer = await pauseJob({ job: name, reason: options.reason });
    const { changed, has_queue, job } = answer;
    const unknown = has_queue ? "" : "; it has no queue yet, and new calls will wait";
    const line = changed ? `is paused${unknown}` : `is already ${pausedText(job)}`;
    return { answer, isDone: changed, line: `${named(job)} ${line}` };
  });
}
