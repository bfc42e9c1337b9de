import { createServedPart } from "../../shared/part/part.ts";
import { openInProcess, type ProcessOptions } from "../../shared/part/process.ts";
import { runService } from "../../shared/platform/lifecycle/run-service.ts";
import { echo, keccak256, slow } from "./jobs.ts";
import { createRouter, type Router } from "./router.ts";
import { composeRunner, RUNNER } from "./runner.ts";

/** The jobs of the reference runner, by their ids. */
const exampleJobs = () => createRouter().job(1, echo).job(2, keccak256).job(3, slow);

export function runRunner(options: ProcessOptions, jobs: Router = exampleJobs()): Promise<number> {
  return runService("runner", options, async (service) => {
    const { host } = openInProcess(RUNNER, options, service);
    const { postern, log, shutdown } = host;
    if (postern.runner.secret === undefined) {
      log.warn("config.warning", {
        warning: "runner.secret is not set, so anyone who can reach this runner can run jobs",
      });
    }
    const composed = composeRunner({ ...host, jobs });
    const runner = createServedPart(composed, { log, async end() {} }); // the process ends its host after the runner
    shutdown.defer("runner", () => runner.close());

    const { address, url } = await runner.listen(options.bindAddress ?? postern.runner.bind_address);
    log.info("service.started", { address, url, jobs: jobs.list().map(({ id, name }) => `${id} (${name})`) });
    return { fatal: composed.firstCheck };
  });
}
