import { loadPostern } from "../../shared/config/load-config.ts";
import { toRunnerRedis } from "../../shared/config/postern-toml.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { openReports } from "../../shared/processes/report.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { echo, keccak256, slow } from "./jobs.ts";
import { createRouter, type Router } from "./router.ts";
import { composeRunner, serveRunner, toRunnerSettings } from "./runner.ts";

export type RunnerProcess = ServiceOptions & { configDir: string; bindAddress: string | undefined };

/** The jobs of the reference runner, by their ids. */
const exampleJobs = () => createRouter().job(1, echo).job(2, keccak256).job(3, slow);

export function runRunner(options: RunnerProcess, jobs: Router = exampleJobs()): Promise<number> {
  return runService("runner", options, async ({ log, shutdown }) => {
    const { postern, warnings } = loadPostern({ dir: options.configDir, env: options.env, reader: "runner" });
    for (const warning of warnings) log.warn("config.warning", { warning });
    const config = postern.runner;
    if (config.secret === undefined) {
      log.warn("config.warning", {
        warning: "runner.secret is not set, so anyone who can reach this runner can run jobs",
      });
    }

    const { url: redisUrl, durability, declared } = toRunnerRedis(postern);
    const redis = connectForRequests(redisUrl, log);
    const connection = { redis, close: () => redis.disconnect() };
    const composed = composeRunner({ jobs, redis, durability, declared, ...toRunnerSettings(postern), log });
    // With a Redis of its own it is seen by nobody who looks at the gateways'.
    const isShared = config.redis === undefined;
    const reports = isShared ? openReports({ kind: "runner", postern, redis, log }) : undefined;
    const runner = serveRunner(composed, { connection, reports, log });
    shutdown.defer("runner", () => runner.close());

    const { address, url } = await runner.listen(options.bindAddress ?? config.bind_address);
    log.info("service.started", { address, url, jobs: jobs.list().map(({ id, name }) => `${id} (${name})`) });
    return { fatal: composed.firstCheck };
  });
}
