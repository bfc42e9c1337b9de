import type { DelayedRun } from "../../../shared/console/jobs.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";
import { named } from "./pause.ts";

export type RunDelayedOptions = Operated & { json?: boolean };

/** `postern jobs run-delayed`: the delayed calls of these jobs are taken before their time. 1 if one of them has none. */
export function runDelayedCalls(
  deps: ProgramDeps,
  names: readonly string[],
  options: RunDelayedOptions,
): Promise<number> {
  return withOperations(deps, options, async ({ runDelayed }) => {
    let code: number = EXIT.ok;
    for (const name of names) {
      const run = await runDelayed({ job: name, reason: "postern jobs run-delayed" });
      if (options.json) deps.print(jsonLine(run));
      if (run.calls > 0) deps.say(inWords(run));
      else {
        const { has_queue, job } = run;
        deps.printError(`${named(job)} has no delayed calls${has_queue ? "" : ", and no queue"}\n`);
        code = EXIT.failed;
      }
    }
    return code;
  });
}

function inWords({ calls, job }: DelayedRun): string {
  const when = job.state === "paused" ? "once the job is resumed" : "now";
  return `${named(job)}: ${counted(calls, "delayed call")} can run ${when}\n`;
}
