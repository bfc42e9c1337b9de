import { join } from "node:path";
import type { TomlTable } from "smol-toml";
import { writeConfig } from "../../shared/config/write-config.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { type Part, startPart } from "../../shared/dev/process.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { eventually } from "./eventually.ts";
import { send } from "./http.ts";
import { tempDir } from "./temp-dir.ts";

export type Stack = {
  readonly redis: PrivateRedis;
  readonly configDir: string;
  readonly runner: Part;
  readonly gateways: readonly Part[];
  readonly producers: readonly Part[];
  readonly x402: readonly Part[];
  /** The first gateway's `host:port`. */
  readonly address: string;
  /** Further parts by the program's own arguments, e.g. `["producer"]`. */
  start(name: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Part>;
  stop(): Promise<void>;
};

export type StackOptions = {
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
export async function startStack(options: StackOptions): Promise<Stack> {
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
  const parts: Part[] = [];
  const start = async (name: string, args: readonly string[], { entry, ...more }: Extra = {}) => {
    const ops = args[0] === "runner" ? [] : ["--ops-address", `127.0.0.1:${await freePort()}`];
    const common = ["--config-dir", configDir, ...ops];
    const part = await startPart({
      name,
      args: [...args, ...common],
      env: { ...process.env, ...env, ...more.env },
      ...(entry && { entry }),
    });
    parts.push(part);
    return part;
  };
  const runner = await start("runner", ["runner"], options.runnerEntry && { entry: options.runnerEntry });
  const started = await Promise.all([
    ...times(gateways, async (i) =>
      start(`gateway ${i}`, ["webhooks", "--bind-address", `127.0.0.1:${await freePort()}`]),
    ),
    ...times(producers, (i) => start(`producer ${i}`, ["producer"])),
    ...times(options.x402?.gateways ?? 0, async (i) =>
      start(`x402 ${i}`, ["x402", "--bind-address", `127.0.0.1:${await freePort()}`]),
    ),
  ]);
  await Promise.all([runner, ...started].map(untilReady));
  const [first, ...rest] = started.slice(0, gateways);
  if (first === undefined) throw new Error("a stack needs a gateway");
  return {
    redis,
    configDir,
    runner,
    gateways: [first, ...rest],
    producers: started.slice(gateways, gateways + producers),
    x402: started.slice(gateways + producers),
    address: first.address,
    start: (name, args, moreEnv) => start(name, args, moreEnv && { env: moreEnv }),
    async stop() {
      await Promise.all(parts.map((part) => part.kill("SIGKILL")));
      await redis.stop();
    },
  };
}

/** Resolves once an x402 gateway has heard of its facilitators and its chains: until then it sells nothing. */
export async function untilSelling({ opsAddress = "" }: Part): Promise<void> {
  await eventually("the gateway sells", async () => {
    const { facilitators, chains } = (await send(opsAddress, { method: "GET", path: "/readyz" })).json<
      Record<string, { ok: boolean }[]>
    >();
    return [...(facilitators ?? []), ...(chains ?? [])].every(({ ok }) => ok);
  });
}

type Extra = { entry?: readonly string[]; env?: NodeJS.ProcessEnv };

function posternTable(
  redisUrl: string,
  runnerAddress: string,
  given: StackOptions["postern"] = {},
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

function times<Made>(count: number, make: (i: number) => Promise<Made>): Promise<Made>[] {
  return Array.from({ length: count }, (_, i) => make(i));
}
