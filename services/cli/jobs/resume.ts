import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";
import { named } from "./pause.ts";

export type ResumeOptions = Operated & { json?: boolean };

/** `postern jobs resume`: the calls of these jobs are taken again. 1 if one of them is not paused. */
export function resumeJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: ResumeOptions,
): Promise<number> {
  return withOperations(deps, options, async ({ resumeJob }) => {
    let code: number = EXIT.ok;
    for (const name of names) {
      const change = await resumeJob({ job: name, reason: "postern jobs resume" });
      const { changed, has_queue, job } = change;
      if (options.json) deps.print(jsonLine(change));
      if (changed) deps.say(`${named(job)} is resumed\n`);
      else {
        deps.printError(`${named(job)} is not paused${has_queue ? "" : ", and has no queue"}\n`);
        code = EXIT.failed;
      }
    }
    return code;
  });
}
