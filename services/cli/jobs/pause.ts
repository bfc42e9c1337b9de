import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";
import { pausedText } from "./list.ts";

export type PauseOptions = Operated & { reason: string; json?: boolean };

/** `postern jobs pause`: no producer takes calls of these jobs. 1 if one of them is paused already. */
export function pauseJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: PauseOptions,
): Promise<number> {
  return withOperations(deps, options, async ({ jobs }) => {
    let code: number = EXIT.ok;
    for (const name of names) {
      const { changed, job } = await jobs.pause(name, options.reason);
      if (options.json) deps.print(jsonLine({ job: name, state: "paused", changed }));
      if (changed) {
        const unknown = job.origins.length > 0 ? "" : "; it has no queue yet, and calls that come will wait";
        deps.say(`${name} is paused${unknown}\n`);
      } else {
        deps.printError(`${name} is already ${pausedText(job)}\n`);
        code = EXIT.failed;
      }
    }
    return code;
  });
}
