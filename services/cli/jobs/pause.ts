import { createAudit } from "../../../shared/audit/audit.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { pausedText } from "./list.ts";

export type PauseOptions = { configDir: string; reason: string; json?: boolean };

/** `postern jobs pause`: no producer takes calls of these jobs. 1 if one of them is paused already. */
export function pauseJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: PauseOptions,
): Promise<number> {
  const { reason } = options;
  const tell = (job: string, changed: boolean): void => {
    if (options.json) deps.print(jsonLine({ job, state: "paused", changed }));
  };
  return withRedis(deps, options, async ({ partition, log }) => {
    const jobs = openJobs(partition);
    const audit = createAudit(partition, log);
    const [by, before] = [operatorName(), await jobs.gates()];
    const already: string[] = [];
    for (const job of names) {
      const at = systemClock();
      if (await jobs.pause(job, { at, by, reason })) {
        await audit({ at, action: "pause", job, by, selection: "by name", reason });
        const unknown = before.has(job) ? "" : "; it has no queue yet, and calls that come will wait";
        tell(job, true);
        deps.say(`${job} is paused${unknown}\n`);
      } else already.push(job);
    }
    const gates = already.length === 0 ? before : await jobs.gates();
    for (const job of already) {
      deps.printError(`${job} is already ${pausedText(gates.get(job))}\n`);
      tell(job, false);
    }
    return already.length === 0 ? EXIT.ok : EXIT.failed;
  });
}
