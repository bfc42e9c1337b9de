import type { ProgramDeps } from "../program-deps.ts";
import { inPartitions, isEverywhere, type JobOptions, named, toEachJob } from "./each-job.ts";
import { pausedText } from "./list.ts";

export type PauseOptions = JobOptions & { reason: string };

/** `postern jobs pause`: no producer takes calls of these jobs. 1 if one of them is paused already, or a partition cannot be reached. */
export function pauseJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: PauseOptions,
): Promise<number> {
  return toEachJob(deps, names, options, async ({ pauseJob }, name) => {
    const answer = await pauseJob({ job: name, reason: options.reason });
    const { changed, has_queue, job } = answer;
    const unknown = has_queue ? "" : "; it has no queue yet, and new calls will wait";
    const places = inPartitions(answer, "paused before a call is taken from it");
    const line = changed ? `is paused${places}${unknown}` : `is already ${pausedText(job)}${places}`;
    return { answer, isDone: changed && isEverywhere(answer), line: `${named(job)} ${line}` };
  });
}
