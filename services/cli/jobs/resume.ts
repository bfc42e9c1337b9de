import type { ProgramDeps } from "../program-deps.ts";
import { forEachJob, isEverywhere, type JobOptions, nameWithPorts, partitionsText } from "./each-job.ts";

/**
 * `postern jobs resume`: ends the pause of these jobs. Exit code 1 if one of them is not paused, or if a partition
 * cannot be reached.
 */
export function resumeJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: JobOptions,
): Promise<number> {
  return forEachJob(deps, names, options, async ({ resumeJob }, name) => {
    const answer = await resumeJob({ job: name, reason: "postern jobs resume" });
    const { changed, has_queue, job } = answer;
    const places = partitionsText(answer, "resumed when a producer can use it");
    const line = changed
      ? `is resumed${places}`
      : `is not paused${places}${has_queue ? "" : ", and has no queue"}`;
    return { answer, isDone: changed && isEverywhere(answer), line: `${nameWithPorts(job)} ${line}` };
  });
}
