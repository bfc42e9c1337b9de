import { listen } from "../../shared/http/listen.ts";
import { handlerOf } from "../../shared/part/generations.ts";
import { closeAfterRequests } from "../../shared/part/part.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { type ComposingHost, runMonitored, servePrivately } from "../../shared/part/serve.ts";
import { runnerKeysOf, runnerPrefixOf } from "../../shared/redis/keys.ts";
import { echo, keccak256, slow } from "./jobs.ts";
import { createMeters, registerGauges } from "./metrics.ts";
import { createRouter, type Router } from "./router.ts";
import { composeRunner, RUNNER } from "./runner.ts";

/** The jobs of the reference runner, by their ids. */
const exampleJobs = () => createRouter().job(1, echo).job(2, keccak256).job(3, slow);

/**
 * Runs the reference runner as a process. It opens its public address before it is connected to Redis. Until then, calls get
 * an answer with Retry-After.
 */
export function runRunner(options: ProcessOptions, jobs: Router = exampleJobs()): Promise<number> {
  const part = { ...RUNNER, opsAddress: "127.0.0.1:9096", createMeters };
  const compose = (host: ComposingHost) => closeAfterRequests(composeRunner({ ...host, jobs }));
  return runMonitored(part, options, compose, async (generations, host) => {
    const { postern, redis, metrics, shutdown, log } = host;
    const { secret, bind_address } = postern.runner;
    if (secret === undefined) {
      log.warn("config.warning", {
        warning: "runner.secret is not set, so anyone who can reach this runner can run jobs",
      });
    }
    registerGauges(metrics, generations, { redis, keys: runnerKeysOf(runnerPrefixOf(postern.redis.name)) });
    const opsAddress = await servePrivately(generations, host);
    const server = await listen(handlerOf(generations), options.bindAddress ?? bind_address, { log });
    shutdown.defer("public address", async () => {
      const until = performance.now() + generations.graceMs;
      generations.drain();
      await server.close(generations.graceMs);
      await generations.close(Math.max(0, until - performance.now()));
    });
    const { address, url } = server;
    const names = jobs.list().map(({ id, name }) => `${id} (${name})`);
    log.info("service.started", { address, url, opsAddress, jobs: names });
    return { fatal: generations.firstCheck };
  });
}
