import { join } from "node:path";
import { loadConfig } from "../../shared/config/load-config.ts";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { writeConfig } from "../../shared/config/write-config.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { type DevnetPart, provideDevnet } from "../../shared/dev/devnet.ts";
import type { Part } from "../../shared/dev/process.ts";
import { provideRedis } from "../../shared/dev/redis.ts";
import { createStack } from "../../shared/dev/stack.ts";
import { beforeDeadline } from "../../shared/dev/wait.ts";
import type { Shutdown } from "../../shared/lifecycle/shutdown.ts";
import { demoConfig, RUNNER_SECRET } from "./demo-config.ts";
import { createPartLog, type PartLog } from "./part-log.ts";
import { openQueueView, type QueueView } from "./queue-view.ts";

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
  start(name: PartName, args: readonly string[]): Promise<Part>;
};

/** What has not ended by itself by then is killed. */
const END_DEADLINE_MS = 10_000;
/** A payment is deep enough in the chain after two blocks. */
const BLOCK_TIME_MS = 250;

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
  const devnet = await startDevnet(rest, shutdown);
  const configDir = join(home, "config");
  const { runnerSecret, ...tables } = await demoConfig({
    redisUrl: redis.url,
    dir: configDir,
    devnet: "missing" in devnet ? undefined : devnet.devnet,
  });
  writeConfig(configDir, tables);
  const partEnv = { ...rest, [RUNNER_SECRET]: runnerSecret, POSTERN_LOG_LEVEL: "info" };
  const logs = createLogs();
  const stack = createStack({
    configDir,
    env: partEnv,
    detached: true,
    onLine: (part, line) => logs[part as PartName].take(line),
  });
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
      const part = await stack.start(name, { args });
      shutdown.defer(name, () => endPart(name, part));
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

async function startDevnet(env: NodeJS.ProcessEnv, shutdown: Shutdown): Promise<World["devnet"]> {
  const ports = { rpc: 0, facilitator: 0, control: 0 };
  const devnet = await provideDevnet({
    env: { ...env, POSTERN_LOG_LEVEL: "info" },
    ports,
    blockTimeMs: BLOCK_TIME_MS,
  });
  if (!("missing" in devnet)) shutdown.defer("devnet", () => endPart("devnet", devnet.part));
  return devnet;
}

function endPart(name: string, part: Part): Promise<unknown> {
  const ended = beforeDeadline(`${name} ends`, part.kill("SIGTERM"), END_DEADLINE_MS);
  return ended.catch(() => part.kill("SIGKILL"));
}
