import type { Redis } from "ioredis";
import { AppError } from "../platform/errors/app-error.ts";
import { findsPrimary } from "./connector.ts";
import { failureOf, notePassing } from "./failure.ts";
import { proverOf } from "./prover.ts";

/**
 * Durability that the deployment requires of its Redis.
 *  - `strict`: Redis' settings must show that a reply means "on disk".
 *  - `replicated`: The settings of the primary and of each replica must show this, and all replicas must confirm each write
 *    (replicated-writes.ts).
 *  - `managed`: Redis may hide its settings, because the operator trusts the Redis service.
 *  - `relaxed`: There is no requirement.
 */
export type DurabilityMode = "strict" | "replicated" | "managed" | "relaxed";

/**
 * Proof that a write to this Redis is on disk.
 *  - `always`: Redis' settings show that it calls fsync before it replies.
 *  - `replicated`: The settings of all replicas show this too, and the replicas confirm the write.
 *  - `managed`: Redis hides its settings, and the operator trusts the Redis service.
 *  - `none`: There is no proof.
 */
export type DiskProof = "always" | "replicated" | "managed" | "none";

/** Warning about a Redis without `maxmemory`. */
export const UNBOUNDED =
  "maxmemory is 0 (no limit), so Redis never reports that it is full. To set a limit, run: redis-cli CONFIG SET maxmemory <bytes>";

/** Warning about a Cluster with `cluster-require-full-coverage yes`. */
export const FULL_COVERAGE =
  "cluster-require-full-coverage is yes, so the loss of any shard of the Cluster stops this deployment. To fix this, run on each node: " +
  "redis-cli CONFIG SET cluster-require-full-coverage no";

/** Warning about a Redis that fails over to replicas although not all replicas confirm writes. */
export const FAILOVER =
  "a failover can lose calls that were answered with 202: the replica that takes over may lack the newest ones. " +
  'To lose none, set durability = "replicated"';

/** State of a server whose settings passed the check of durability. */
export type ServerState = {
  readonly proof: DiskProof;
  readonly usedMemoryBytes: number;
  /** 0 if Redis has no `maxmemory`. */
  readonly maxMemoryBytes: number;
  /** True for a node of a Cluster that stops when a shard is lost. */
  readonly needsFullCoverage: boolean;
};

/**
 * Checks whether a replica, with its settings, keeps the writes that it confirms. If not, throws `start.redis_not_durable`
 * with a remedy. Resolves with whether it is rewriting its append-only file. After a full sync, a replica has no such file
 * until it has written a new one.
 */
export async function requireDurableReplica(redis: Redis): Promise<{ isRewriting: boolean }> {
  const info = parseInfo(await redis.info());
  diskProof("replicated", info, await readConfig(redis, info));
  return { isRewriting: info["aof_rewrite_in_progress"] === "1" || info["aof_rewrite_scheduled"] === "1" };
}

/** Checks whether Redis can now keep what a 202 promises. If not, throws `start.redis_not_durable` with a remedy. */
export async function readServerState(redis: Redis, mode: DurabilityMode): Promise<ServerState> {
  const info = parseInfo(await redis.info());
  requirePrimary(info, redis);
  const shown = mode === "relaxed" ? undefined : await readConfig(redis, info);
  if (mode === "replicated") await proverOf(redis)?.check();
  return {
    proof: mode === "relaxed" ? "none" : diskProof(mode, info, shown),
    needsFullCoverage: shown?.[FULL_COVERAGE_SETTING] === "yes",
    usedMemoryBytes: Number(info["used_memory"] ?? 0),
    maxMemoryBytes: Number(info["maxmemory"] ?? 0),
  };
}

function requirePrimary({ role }: Record<string, string>, redis: Redis): void {
  if (role === undefined || role === "master") return;
  if (findsPrimary(redis)) {
    redis.disconnect(true);
    throw notePassing(new Error("this Redis has become a replica, and the new primary is looked for"));
  }
  throw new AppError("start.redis_not_durable", {
    reason:
      "Redis can lose accepted calls: it is a replica, so writes to it are lost. To fix this, set [redis] url to the primary.",
  });
}

function diskProof(mode: DurabilityMode, info: Record<string, string>, shown: Shown | undefined): DiskProof {
  requireVersion(info);
  // A managed service that hides its settings may store writes in another way than in an append-only file, so none is
  // required.
  if (mode !== "managed" || shown !== undefined) requireAof(info, shown !== undefined);
  requireNoEviction(info, shown !== undefined);
  for (const name of SETTINGS) {
    const found = shown?.[name];
    if (found !== undefined && found !== REQUIRED[name])
      throw notDurable(LOSSES[name](found), toSet(name, REQUIRED[name], true));
  }
  if (SETTINGS.every((name) => shown?.[name] !== undefined))
    return mode === "replicated" ? "replicated" : "always";
  if (mode === "managed") return "managed";
  throw notDurable(
    "CONFIG GET does not show appendfsync and no-appendfsync-on-rewrite",
    "allow CONFIG GET to the user of [redis]; or, if the Redis service promises that a write is durable before its reply, " +
      'set durability = "managed" in postern.toml',
  );
}

/** Settings that strict durability requires, with the values that CONFIG GET must show. */
const REQUIRED = { appendfsync: "always", "no-appendfsync-on-rewrite": "no" } as const;
const SETTINGS = Object.keys(REQUIRED) as (keyof typeof REQUIRED)[];
const FULL_COVERAGE_SETTING = "cluster-require-full-coverage";

const LOSSES: Readonly<Record<keyof typeof REQUIRED, (found: string) => string>> = {
  appendfsync: (found) => `appendfsync is ${found}, but must be always`,
  "no-appendfsync-on-rewrite": () =>
    "no-appendfsync-on-rewrite is yes, but must be no: Redis does not sync while it rewrites its append-only file",
};

/**
 * Minimum major version. Earlier versions treat scripts in a full Redis differently, and this program was not tested with
 * them.
 */
const MAJOR_MIN = 7;

/** Checks Redis' version. Valkey and other servers report the version of Redis with which they are compatible. */
function requireVersion({ redis_version: version }: Record<string, string>): void {
  if (version !== undefined && Number.parseInt(version, 10) >= MAJOR_MIN) return;
  throw notDurable(
    `its version is ${version ?? "not shown"}, but must be ${MAJOR_MIN}.0 or newer`,
    `install Redis ${MAJOR_MIN}.0 or newer, or Valkey`,
  );
}

function requireAof(info: Record<string, string>, showsConfig: boolean): void {
  if (info["aof_enabled"] !== "1") {
    if (showsConfig)
      throw notDurable("appendonly is no, but must be yes", toSet("appendonly", "yes", showsConfig));
    throw notDurable(
      "appendonly is no, and CONFIG is not allowed",
      "enable an append-only file with an fsync before each reply in the settings of the Redis service; a service without that cannot be used",
    );
  }
  if (info["aof_last_write_status"] !== "ok") {
    throw notDurable("its last write to the append-only file failed", "check Redis' log and its disk");
  }
}

/** Checks the eviction policy in INFO, which shows it even if CONFIG GET is forbidden. */
function requireNoEviction(info: Record<string, string>, showsConfig: boolean): void {
  const { maxmemory_policy: policy } = info;
  if (policy === "noeviction") return;
  const what =
    policy === undefined
      ? "INFO does not show maxmemory-policy, which must be noeviction"
      : `maxmemory-policy is ${policy}, but must be noeviction`;
  throw notDurable(what, toSet("maxmemory-policy", "noeviction", showsConfig));
}

function toSet(name: string, value: string, showsConfig: boolean): string {
  return showsConfig
    ? `run \`redis-cli CONFIG SET ${name} ${value}\` now, and set \`${name} ${value}\` in redis.conf`
    : `set \`${name} ${value}\` in the settings of the Redis service`;
}

type Shown = Partial<Record<string, string>>;

/** Reads the settings that Redis shows. Undefined if the ACL, or a managed Redis, forbids CONFIG GET. */
async function readConfig(redis: Redis, info: Record<string, string>): Promise<Shown | undefined> {
  const names = info["cluster_enabled"] === "1" ? [...SETTINGS, FULL_COVERAGE_SETTING] : SETTINGS;
  try {
    const replies = await Promise.all(names.map((name) => redis.config("GET", name)));
    return Object.fromEntries(replies.flatMap(toPairs));
  } catch (error) {
    if (failureOf(error) === "denied") return undefined;
    throw error;
  }
}

/** Converts a reply of CONFIG GET, which is a flat list in RESP2 and a map in RESP3. */
function toPairs(reply: unknown): [string, string][] {
  if (!Array.isArray(reply)) return Object.entries(reply as Record<string, string>);
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) pairs.push([String(reply[i]), String(reply[i + 1])]);
  return pairs;
}

export function parseInfo(text: string): Record<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.includes(":"));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
  );
}

function notDurable(what: string, remedy: string): AppError {
  return new AppError("start.redis_not_durable", {
    reason: `Redis can lose accepted calls: ${what}. To fix this, ${remedy}. To accept the loss, set durability = "relaxed" in postern.toml.`,
  });
}
