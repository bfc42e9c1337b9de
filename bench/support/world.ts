import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Table, writeConfig } from "../../shared/config/config-tables.ts";
import { type Part, startPart } from "../../shared/dev/process.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { createStack, type Stack } from "../../shared/dev/stack.ts";
import { SENT_HEADER } from "../processes/steady-protocol.ts";
import { compiled } from "./build.ts";
import { type Sink, startSink } from "./sink.ts";

/** Number of jobs, which are numbered from 1. Each has an endpoint. */
const JOBS = 100;
export const SECRET = "the-secret-that-a-bench-signs-with";
/**
 * Maximum number of injections in flight. In the hand-written baseline it limits all jobs together. In a producer it limits
 * each job, because a job may use half of the producer's `concurrency`.
 */
export const CONCURRENCY = 50;
export const CONNECTIONS = 64;

/** 300 bytes of JSON, like a typical webhook. */
export const BODY = JSON.stringify({ event: "push", id: 4_711, text: "" }).replace('""', (quotes) =>
  quotes.replace('""', `"${"x".repeat(300 - 35)}"`),
);
export const SIGNATURE = `sha256=${createHmac("sha256", SECRET).update(BODY).digest("hex")}`;

/**
 * Returns the path of a job's endpoint, at the gateway and at its baseline. With `withIds`, it is the endpoint at which the
 * gateway reads delivery ids, and remembers each call to recognize a repeat.
 */
export function hookPath(job: number, withIds = false): string {
  return `/hooks/${withIds ? "bench-with-id" : "bench"}/${job}`;
}

/** Returns the path of the endpoint that keeps the results of a job's calls. */
export function keptPath(job: number): string {
  return `/hooks/bench-kept/${job}`;
}

/** Name of the header with a delivery's id. */
export const ID_HEADER = "X-Delivery-Id";
/** Path of an endpoint that forwards the header with the send time to the runner. */
export const TIMED_PATH = "/hooks/bench-timed";

/** Returns the numbers of the first `count` jobs. */
export function firstJobs(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i + 1);
}

/**
 * Surroundings of one part of the bench: a Redis with strict durability, a sink in place of a runner, and functions that start
 * processes of Postern and the hand-written baselines.
 */
export type World = {
  readonly redis: PrivateRedis;
  readonly sink: Sink;
  /** Temporary folder for configuration, logs and other files. It is deleted when the world ends. */
  readonly dir: string;
  /** Starts the processes of Postern, with the configuration in `configDir`. */
  readonly stack: Stack;
  readonly configDir: string;
  /** Starts a compiled script of the bench, and waits until it logs that it has started, as Postern's processes do. */
  start(name: string, script: string, args: readonly string[]): Promise<Part>;
  startGateway(): Promise<Part>;
  startProducer(): Promise<Part>;
  startBaselineIngress(): Promise<Part>;
  startBaselineDrain(): Promise<Part>;
};

/**
 * A temporary folder, and functions that start processes with their files in it. It has no Redis and no configuration yet.
 * `inWorld` adds these, and so makes a world of it.
 */
type Workspace = Pick<World, "dir" | "stack" | "configDir" | "start"> & {
  /** Starts a Redis for this world, with further arguments. */
  startRedis(args: readonly string[]): Promise<PrivateRedis>;
};

/** Options of a world. */
export type WorldOptions = {
  /** Folder of another, built clone. Its processes are started instead of this clone's. */
  clone?: string;
};

/** Runs `measure` in a new world, and ends the world in any case. */
export function inWorld<Result>(
  nodeArgs: readonly string[],
  measure: (world: World) => Promise<Result>,
  { clone }: WorldOptions = {},
): Promise<Result> {
  const measureOn = async (workspace: Workspace) => {
    const { stack, configDir, start } = workspace;
    // Redis must not rewrite its append-only file, because this would slow only one side of the comparison in one round.
    const redis = await workspace.startRedis(["--auto-aof-rewrite-percentage", "0"]);
    const sink = await startSink(start);
    writeConfig(configDir, { postern: posternTable(redis.url, sink.url), webhooks: webhooksTable() });
    return await measure({
      ...workspace,
      redis,
      sink,
      startGateway: () => startGateway(stack),
      startProducer: () => stack.start("producer"),
      startBaselineIngress: () => start("baseline", "bench/baselines/ingress.ts", [redis.url, SECRET]),
      startBaselineDrain: () =>
        start("baseline-drain", "bench/baselines/drain.ts", [redis.url, sink.url, String(CONCURRENCY)]),
    });
  };
  return inWorkspace(nodeArgs, measureOn, clone);
}

export function startGateway(stack: Stack): Promise<Part> {
  const args = ["--bind-address", "127.0.0.1:0", "--service-id", "1"];
  return stack.start("webhooks", { name: "gateway", args });
}

/**
 * Runs `measure` with a new workspace. Afterwards it ends all processes and deletes the folder, even after an error. With
 * `clone`, the processes of Postern run from the build of that clone.
 */
export async function inWorkspace<Result>(
  nodeArgs: readonly string[],
  measure: (ground: Workspace) => Promise<Result>,
  clone?: string,
): Promise<Result> {
  const dir = mkdtempSync(join(tmpdir(), "postern-bench-"));
  const configDir = join(dir, "config");
  const { env } = process;
  // The processes log to files. A pipe to the bench would cost them more time than their log costs in production.
  const stack = createStack({
    configDir,
    env,
    entry: [...nodeArgs, compiled("services/cli/main.ts", clone)],
    logDir: dir,
  });
  const scripts: Part[] = [];
  const start: World["start"] = async (name, script, args) => {
    const profiled = script.startsWith("bench/processes") ? [] : nodeArgs;
    const entry = [...profiled, compiled(script)];
    const part = await startPart({ name, entry, args, env, logFile: join(dir, `${name}.log`) });
    scripts.push(part);
    return part;
  };
  const servers: PrivateRedis[] = [];
  const startRedisHere: Workspace["startRedis"] = async (args) => {
    const redis = await startRedis({ env, args });
    servers.push(redis);
    return redis;
  };
  try {
    return await measure({ dir, configDir, stack, start, startRedis: startRedisHere });
  } finally {
    await Promise.all([...stack.parts, ...scripts].map((part) => part.kill()));
    await Promise.all(servers.map((redis) => redis.stop()));
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Builds the content of postern.toml, the configuration that all processes of Postern in a world share. */
export function posternTable(
  redisUrl: string,
  runnerUrl: string,
  producer: Table = { concurrency: 2 * CONCURRENCY },
) {
  return {
    drain_secs: 0,
    redis: { url: redisUrl },
    results: { secret: "a secret of the bench for the tokens of results" },
    runner: { url: runnerUrl },
    producer,
  };
}

/** Builds the configuration of the webhooks gateway: an endpoint for each job, and the special endpoints of job 1. */
function webhooksTable(): Table {
  const toEndpoint = (job: number, path: string) => ({
    path,
    name: "bench",
    job_id: job,
    auth: "hmac-sha256",
    secret: SECRET,
  });
  const withId = { ...toEndpoint(1, hookPath(1, true)), idempotency_header: ID_HEADER };
  const kept = { ...withId, path: keptPath(1), keep_result: true };
  const timed = { ...toEndpoint(1, TIMED_PATH), forward_headers: [SENT_HEADER] };
  return {
    endpoints: [...firstJobs(JOBS).map((job) => toEndpoint(job, hookPath(job))), withId, kept, timed],
  };
}
