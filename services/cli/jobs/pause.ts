import type { ProgramDeps } from "../program-deps.ts";
import { forEachJob, isEverywhere, type JobOptions, nameWithPorts, partitionsText } from "./each-job.ts";
import { pausedText } from "./list.ts";

export type PauseOptions = JobOptions & { reason: string };

/**
 * `postern jobs pause`: stops producers from taking calls of these jobs. Exit code 1 if one of them is already
 * paused, or if a partition cannot be reached.
 */
export function pauseJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: PauseOptions,
): Promise<number> {
  return forEachJob(deps, names, options, async ({ pauseJob }, name) => {
    const answer = await pauseJob({ job: name, reason: options.reason });
    const { changed, has_queue, job } = answer;
    const unknown = has_queue ? "" : "; it has no queue yet, and new calls will wait";
    const places = partitionsText(answer, "paused before a call is taken from it");
    const line = changed ? `is paused${places}${unknown}` : `is already ${pausedText(job)}${places}`;
    return { answer, isDone: changed && isEverywhere(answer), line: `${nameWithPorts(job)} ${line}` };
  });
}
