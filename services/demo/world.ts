import { join } from "node:path";
import { loadConfig } from "../../shared/config/load-config.ts";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { writeConfig } from "../../shared/config/write-config.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { type DevnetPart, startDevnet } from "../../shared/dev/devnet.ts";
import { type Part, startPart } from "../../shared/dev/process.ts";
import { provideRedis } from "../../shared/dev/redis.ts";
import { startPricing } from "../../shared/dev/stack.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import type { Shutdown } from "../../shared/lifecycle/shutdown.ts";
import { demoConfig, RUNNER_SECRET } from "./demo-config.ts";
import { createPartLog, type PartLog } from "./part-log.ts";
import { openQueueView, type QueueView } from "./queue-view.ts";
import { within } from "./until.ts";

/** The parts that read the configuration. */
export type PartName = "runner" | "producer" | "webhooks" | "x402" | "pricing";

/** What runs for the demo. */
export type World = {
  readonly redisUrl: string;
  /** Whether Redis was started for the demo; else it is REDIS_URL's. */
  readonly ownRedis: boolean;
  readonly configDir: string;
  readonly endpoints: readonly EndpointToml[];
  readonly runnerSecret: Secret;
  /** What the parts and `postern` run with. */
  readonly env: NodeJS.ProcessEnv;
  readonly queue: QueueView;
  /** The chain and the facilitator that jobs are paid with, or what to install for there to be one. */
  readonly devnet: DevnetPart | { missing: string };
  readonly logs: Readonly<Record<PartName, PartLog>>;
  /** Starts a part of the built program and resolves once it listens. */
  start(name: Exclude<PartName, "pricing">, args: readonly string[]): Promise<Part>;
  /** Starts the pricing engine, with its x402 settlement extension. */
  startPricing(): Promise<Part>;
};

/** What has not ended by itself by then is killed. */
const END_DEADLINE_MS = 10_000;
/** A payment is deep enough in the chain after two blocks. */
const BLOCK_TIME_MS = 250;
const FREE_PORTS = { rpc: 0, facilitator: 0, control: 0 };

type Options = { home: string; env: NodeJS.ProcessEnv; shutdown: Shutdown };

/**
 * Redis, a devnet and a configuration; the parts are the first scene's to start. Throws when the Redis of REDIS_URL is in
 * use: the demo's runner would run calls that are another's.
 */
export async function createWorld({ home, env, shutdown }: Options): Promise<World> {
  const redis = await provideRedis({ env, dir: join(home, "redis"), detached: true });
  shutdown.defer("redis", () => redis.private?.stop());
  const queue = await openQueueView(redis.url);
  shutdown.defer("queue view", () => queue.close());
  if (redis.private === undefined) await queue.assertUnused();

  const { POSTERN_FAILPOINT: _, ...rest } = env;
  const devnet = await provideDevnet(rest, shutdown);
  const configDir = join(home, "config");
  const { runnerSecret, ...tables } = await demoConfig({
    redisUrl: redis.url,
    dir: configDir,
    devnet: "missing" in devnet ? undefined : devnet.devnet,
  });
  writeConfig(configDir, tables);
  const partEnv = { ...rest, [RUNNER_SECRET]: runnerSecret, POSTERN_LOG_LEVEL: "info" };
  const logs = createLogs();
  return {
    redisUrl: redis.url,
    ownRedis: redis.private !== undefined,
    configDir,
    endpoints: loadConfig({ dir: configDir, env: partEnv }).webhooks?.endpoints ?? [],
    runnerSecret: new Secret(runnerSecret),
    env: partEnv,
    queue,
    devnet,
    logs,
    async start(name, args) {
      const all = [name, "--config-dir", configDir, ...args];
      const onLine = (line: string) => logs[name].take(line);
      const part = await startPart({ name, args: all, env: partEnv, detached: true, onLine });
      shutdown.defer(name, () => endPart(name, part));
      return part;
    },
    async startPricing() {
      const onLine = (line: string) => logs.pricing.take(line);
      const part = await startPricing({ configDir, env: partEnv, onLine });
      shutdown.defer("pricing", () => endPart("pricing", part));
      return part;
    },
  };
}

function createLogs(): World["logs"] {
  return {
    runner: createPartLog(),
    producer: createPartLog(),
    webhooks: createPartLog(),
    x402: createPartLog(),
    pricing: createPartLog(),
  };
}

async function provideDevnet(env: NodeJS.ProcessEnv, shutdown: Shutdown): Promise<World["devnet"]> {
  try {
    const options = { ports: FREE_PORTS, blockTimeMs: BLOCK_TIME_MS };
    const devnet = await startDevnet({ env: { ...env, POSTERN_LOG_LEVEL: "info" }, ...options });
    shutdown.defer("devnet", () => endPart("devnet", devnet.part));
    return devnet;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "start.program_missing") throw error;
    return { missing: error.message };
  }
}

function endPart(name: string, part: Part): Promise<unknown> {
  const ended = within(`${name} ends`, part.kill("SIGTERM"), END_DEADLINE_MS);
  return ended.catch(() => part.kill("SIGKILL"));
}
