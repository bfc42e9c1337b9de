import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type ResumeOptions = Operated & { json?: boolean };

/** `postern jobs resume`: the calls of these jobs are taken again. 1 if one of them is not paused. */
export function resumeJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: ResumeOptions,
): Promise<number> {
  return withOperations(deps, options, async ({ jobs }) => {
    let code: number = EXIT.ok;
    for (const name of names) {
      const { changed } = await jobs.resume(name);
      if (options.json) deps.print(jsonLine({ job: name, state: "resumed", changed }));
      if (changed) deps.say(`${name} is resumed\n`);
      else {
        deps.printError(`${name} is not paused\n`);
        code = EXIT.failed;
      }
    }
    return code;
  });
}
