import type { ProgramDeps } from "../program-deps.ts";
import { inPartitions, isEverywhere, type JobOptions, named, toEachJob } from "./each-job.ts";

/** `postern jobs resume`: the calls of these jobs are taken again. 1 if one of them is not paused, or a partition cannot be reached. */
export function resumeJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: JobOptions,
): Promise<number> {
  return toEachJob(deps, names, options, async ({ resumeJob }, name) => {
    const answer = await resumeJob({ job: name, reason: "postern jobs resume" });
    const { changed, has_queue, job } = answer;
    const places = inPartitions(answer, "resumed when a producer can use it");
    const line = changed
      ? `is resumed${places}`
      : `is not paused${places}${has_queue ? "" : ", and has no queue"}`;
    return { answer, isDone: changed && isEverywhere(answer), line: `${named(job)} ${line}` };
  });
}
