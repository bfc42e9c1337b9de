import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createJobsApi } from "../../../shared/operator/jobs.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type ResumeOptions = { configDir: string; json?: boolean };

/** `postern jobs resume`: the calls of these jobs are taken again. 1 if one of them is not paused. */
export function resumeJobs(
  deps: ProgramDeps,
  names: readonly string[],
  options: ResumeOptions,
): Promise<number> {
  return withRedis(deps, options, async (session) => {
    const jobs = createJobsApi(session);
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
