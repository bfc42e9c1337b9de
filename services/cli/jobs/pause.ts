import type { JobView } from "../../../shared/console/jobs.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
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
  return withOperations(deps, options, async ({ pauseJob }) => {
    let code: number = EXIT.ok;
    for (const name of names) {
      const change = await pauseJob({ job: name, reason: options.reason });
      const { changed, has_queue, job } = change;
      if (options.json) deps.print(jsonLine(change));
      if (changed) {
        const unknown = has_queue ? "" : "; it has no queue yet, and new calls will wait";
        deps.say(`${named(job)} is paused${unknown}\n`);
      } else {
        deps.printError(`${named(job)} is already ${pausedText(job)}\n`);
        code = EXIT.failed;
      }
    }
    return code;
  });
}

/** The job's name, and which ports that of a receiver without a port stands for. */
export function named({ job, ports = [] }: JobView): string {
  return ports.length > 1 ? `${job} (ports ${ports.join(" and ")})` : job;
}
