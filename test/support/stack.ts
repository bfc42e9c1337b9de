import { join } from "node:path";
import type { TomlTable } from "smol-toml";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import type { Part } from "../../shared/dev/process.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { createStack, untilReady } from "../../shared/dev/stack.ts";
import { tempDir } from "./temp-dir.ts";

export type TestStack = {
  readonly redis: PrivateRedis;
  readonly configDir: string;
  readonly runner: Part;
  readonly gateways: readonly Part[];
  readonly producers: readonly Part[];
  readonly x402: readonly Part[];
  /** The first gateway's `host:port`. */
  readonly address: string;
  stop(): Promise<void>;
};

export type TestStackOptions = {
  endpoints: readonly TomlTable[];
  /** Keys of webhooks.toml beside the endpoints. */
  webhooks?: TomlTable;
  /** Merged, one level deep, over settings that make retries quick. */
  postern?: Readonly<Record<string, TomlTable>>;
  /** How long a gateway that was told to stop still takes what arrives. */
  drainSecs?: number;
  gateways?: number;
  producers?: number;
  /** x402.toml and job_pricing.toml, and how many x402 gateways; none without it. */
  x402?: { toml: TomlTable; prices: TomlTable; gateways: number };
  /** Node's arguments for a runner of the test's own; else the reference runner. */
  runnerEntry?: readonly string[];
  env?: NodeJS.ProcessEnv;
};

/** A private Redis, a runner, gateways and producers, as real processes of the built program; ready when this resolves. */
export async function startTestStack(options: TestStackOptions): Promise<TestStack> {
  const { gateways = 1, producers = 1, env = {} } = options;
  const redis = await startRedis({ env: process.env });
  const configDir = join(tempDir(), "config");
  const runnerAddress = `127.0.0.1:${await freePort()}`;
  writeConfig(configDir, {
    postern: {
      ...(options.drainSecs !== undefined && { drain_secs: options.drainSecs }),
      ...posternTable(redis.url, runnerAddress, options.postern),
    },
    webhooks: { ...options.webhooks, endpoints: [...options.endpoints] },
    ...(options.x402 && { x402: options.x402.toml, job_pricing: options.x402.prices }),
  });
  const stack = createStack({ configDir, env: { ...process.env, ...env } });
  const runner = await stack.start("runner", { entry: options.runnerEntry });
  const [webhooks, working, x402] = await Promise.all([
    times(gateways, async (i) =>
      stack.start("webhooks", { name: `gateway ${i}`, args: await ownPorts("--bind-address") }),
    ),
    times(producers, async (i) => stack.start("producer", { name: `producer ${i}`, args: await ownPorts() })),
    times(options.x402?.gateways ?? 0, async (i) =>
      stack.start("x402", { name: `x402 ${i}`, args: await ownPorts("--bind-address") }),
    ),
  ]);
  await Promise.all(stack.parts.map(untilReady));
  const [first] = webhooks;
  if (first === undefined) throw new Error("a stack needs a gateway");
  return {
    redis,
    configDir,
    runner,
    gateways: webhooks,
    producers: working,
    x402,
    address: first.address,
    async stop() {
      await Promise.all(stack.parts.map((part) => part.kill("SIGKILL")));
      await redis.stop();
    },
  };
}

/** Addresses that a part keeps over a restart. */
async function ownPorts(...options: string[]): Promise<string[]> {
  const ports = ["--ops-address", ...options].map(async (option) => [
    option,
    `127.0.0.1:${await freePort()}`,
  ]);
  return (await Promise.all(ports)).flat();
}

function posternTable(
  redisUrl: string,
  runnerAddress: string,
  given: TestStackOptions["postern"] = {},
): TomlTable {
  const { redis, runner, producer, ...rest } = given;
  return {
    ...rest,
    redis: { url: redisUrl, ...redis },
    runner: {
      url: `http://${runnerAddress}`,
      bind_address: runnerAddress,
      secret: "the-secret-of-runner-and-producer",
      timeout_ms: 2000,
      ...runner,
    },
    producer: { lock_ms: 3000, backoff: { base_ms: 50, cap_ms: 500 }, ...producer },
  };
}

function times<Made>(count: number, make: (i: number) => Promise<Made>): Promise<Made[]> {
  return Promise.all(Array.from({ length: count }, (_, i) => make(i)));
}
