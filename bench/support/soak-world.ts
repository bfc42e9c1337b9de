import { type Table, writeConfig } from "../../shared/config/config-tables.ts";
import type { Part } from "../../shared/dev/process.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import type { SoakRuns } from "../processes/soak-protocol.ts";
import { compiled } from "./build.ts";
import { soakJobs } from "./soak-plan.ts";
import { hookPath, inWorkspace, posternTable, SECRET, startGateway } from "./world.ts";

/**
 * Time for which gateway and runner remember a call, to recognize a repeat. It is the minimum that an endpoint permits. So the
 * data of a call is deleted within a fifth of the run, and memory should stay flat afterwards.
 */
export const WINDOW_SECS = 60;
const ANSWER_SECS = 30;

/** Arguments of Redis, as in docker-compose.yml. */
const REDIS = ["--maxmemory", "1gb"];
const BODY_BYTES_MAX = 4 * 1024 * 1024;

export type SoakWorld = {
  readonly queueRedis: PrivateRedis;
  readonly runnerRedis: PrivateRedis;
  readonly gateway: Part;
  readonly producer: Part;
  readonly runner: Part;
  /** URL at which the runner serves its counts. */
  readonly countUrl: string;
  runs(): Promise<SoakRuns>;
};

/** Starts a gateway, a producer, a runner, a Redis for the queue and a Redis for the runner, and runs `measure` with them. */
export function inSoakWorld<Result>(
  nodeArgs: readonly string[],
  calls: number,
  measure: (world: SoakWorld) => Promise<Result>,
): Promise<Result> {
  const heap = ["--import", compiled("bench/processes/heap.ts")];
  return inWorkspace([...nodeArgs, ...heap], async ({ configDir, stack, start, startRedis }) => {
    const [queueRedis, runnerRedis] = [await startRedis(REDIS), await startRedis(REDIS)];
    const configure = (runnerUrl?: string) =>
      writeConfig(configDir, {
        postern: postern(queueRedis.url, runnerRedis.url, runnerUrl),
        webhooks: webhooks(),
      });
    configure();
    const runner = await start("runner", "bench/processes/runner.ts", [configDir, String(calls)]);
    configure(`http://${runner.address}`);
    const countUrl = String((await runner.process.waitForEvent("bench.counts"))["url"]);
    const [producer, gateway] = [await stack.start("producer"), await startGateway(stack)];
    await Promise.all([runner, producer, gateway].map(untilReady));
    const runs = async () => (await fetch(countUrl)).json() as Promise<SoakRuns>;
    return await measure({ queueRedis, runnerRedis, gateway, producer, runner, countUrl, runs });
  });
}

/**
 * Builds the configuration. The default `runnerUrl` is a placeholder: the runner reads this configuration too, before it has
 * chosen the port that the other processes need.
 */
function postern(queueUrl: string, runnerRedisUrl: string, runnerUrl = "http://127.0.0.1:1") {
  const { runner, ...rest } = posternTable(queueUrl, runnerUrl, {});
  const redis = { url: runnerRedisUrl, durability: "strict" };
  const memory = { memory_secs: WINDOW_SECS, answer_secs: ANSWER_SECS };
  return { ...rest, runner: { ...runner, secret: SECRET, redis, ...memory } };
}

function webhooks(): Table {
  const endpoints = soakJobs.map(({ id }) => ({
    path: hookPath(id),
    name: "soak",
    job_id: id,
    auth: "hmac-sha256",
    secret: SECRET,
    idempotency_header: "X-Delivery-Id",
    idempotency_window_secs: WINDOW_SECS,
  }));
  return { body_limit_bytes: BODY_BYTES_MAX, endpoints };
}
