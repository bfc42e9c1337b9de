import { createAudit } from "../../../shared/audit/audit.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type ResumeOptions = { configDir: string; json?: boolean };

/** `postern jobs resume`: the calls of these jobs are taken again. 1 if one of them is not paused. */
export function resumeJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: ResumeOptions,
): Promise<number> {
  const tell = (job: string, changed: boolean): void => {
    if (options.json) deps.print(jsonLine({ job, state: "resumed", changed }));
  };
  return withRedis(deps, options, async ({ partition, log }) => {
    const jobs = openJobs(partition);
    const audit = createAudit(partition, log);
    const by = operatorName();
    const others: string[] = [];
    for (const job of names) {
      if (await jobs.resume(job)) {
        await audit({ at: systemClock(), action: "resume", job, by, selection: "by name" });
        tell(job, true);
        deps.say(`${job} is resumed\n`);
      } else others.push(job);
    }
    for (const job of others) {
      deps.printError(`${job} is not paused\n`);
      tell(job, false);
    }
    return others.length === 0 ? EXIT.ok : EXIT.failed;
  });
}
