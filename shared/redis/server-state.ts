import type { Redis } from "ioredis";
import { AppError, messageOf } from "../errors/app-error.ts";

export type DurabilityMode = "strict" | "relaxed";

/**
 * How a reply from this Redis proves that the write is on disk. `always`: Redis calls fsync before it replies. `waitaof`:
 * WAITAOF follows each write on its connection. `none`: nothing proves it (mode relaxed).
 */
export type DiskProof = "always" | "waitaof" | "none";

/** What it means that Redis has no `maxmemory`. */
export const UNBOUNDED = "Redis has no maxmemory, so it never says that it is full";

/** A server that can keep what a 202 promises. */
export type ServerState = {
  readonly proof: DiskProof;
  readonly usedMemoryBytes: number;
  /** 0 when Redis has no `maxmemory`. */
  readonly maxMemoryBytes: number;
};

/**
 * Asks Redis whether it can keep what a 202 promises now. If it cannot, throws `start.redis_not_durable` with what to do
 * about it.
 */
export async function readServerState(redis: Redis, mode: DurabilityMode): Promise<ServerState> {
  const info = parseInfo(await redis.info());
  const proof = await diskProof(redis, mode, info);
  if (info["role"] !== undefined && info["role"] !== "master") {
    throw notDurable("it is a replica, and writes to it are lost", "point [redis] url at the primary");
  }
  return {
    proof,
    usedMemoryBytes: Number(info["used_memory"] ?? 0),
    maxMemoryBytes: Number(info["maxmemory"] ?? 0),
  };
}

async function diskProof(
  redis: Redis,
  mode: DurabilityMode,
  info: Record<string, string>,
): Promise<DiskProof> {
  if (mode === "relaxed") return "none";
  requireAof(info);
  requireNoEviction(info);
  const config = await readConfig(redis);
  const { "no-appendfsync-on-rewrite": skipsSync } = config ?? {};
  if (config === undefined || skipsSync === undefined) return requireWaitAof(redis);
  if (skipsSync !== "no") {
    throw notDurable(
      "no-appendfsync-on-rewrite is yes, so it syncs nothing while it rewrites its append-only file",
      "set `no-appendfsync-on-rewrite no` in redis.conf (or run: redis-cli CONFIG SET no-appendfsync-on-rewrite no)",
    );
  }
  if (config["appendfsync"] === "always") return "always";
  try {
    return await requireWaitAof(redis);
  } catch (error) {
    throw notDurable(
      `appendfsync is ${config["appendfsync"]}, which can lose calls already answered with 202`,
      "set `appendfsync always` in redis.conf (or run: redis-cli CONFIG SET appendfsync always)",
      error,
    );
  }
}

function requireAof(info: Record<string, string>): void {
  if (info["aof_enabled"] !== "1") {
    throw notDurable(
      "appendonly is no",
      "set `appendonly yes` and `appendfsync always` in redis.conf (or run: redis-cli CONFIG SET appendonly yes)",
    );
  }
  if (info["aof_last_write_status"] !== "ok") {
    throw notDurable("its last write to the append-only file failed", "look at Redis' log and its disk");
  }
}

/** INFO says it too where CONFIG GET is forbidden. */
function requireNoEviction(info: Record<string, string>): void {
  const { maxmemory_policy: policy } = info;
  if (policy === "noeviction") return;
  const what =
    policy === undefined ? "INFO does not say its maxmemory-policy" : `maxmemory-policy is ${policy}`;
  throw notDurable(
    what,
    "set `maxmemory-policy noeviction` in redis.conf (or run: redis-cli CONFIG SET maxmemory-policy noeviction)",
  );
}

/** Undefined if the ACL, or a managed Redis, forbids CONFIG GET. */
async function readConfig(redis: Redis): Promise<Record<string, string> | undefined> {
  try {
    const replies = await Promise.all([
      redis.config("GET", "appendfsync"),
      redis.config("GET", "no-appendfsync-on-rewrite"),
    ]);
    return Object.fromEntries(replies.flatMap(toPairs));
  } catch (error) {
    if (/NOPERM|unknown command|not allowed/i.test(messageOf(error))) return undefined;
    throw error;
  }
}

/** CONFIG GET replies with a flat list in RESP2 and with a map in RESP3. */
function toPairs(reply: unknown): [string, string][] {
  if (!Array.isArray(reply)) return Object.entries(reply as Record<string, string>);
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) pairs.push([String(reply[i]), String(reply[i + 1])]);
  return pairs;
}

async function requireWaitAof(redis: Redis): Promise<DiskProof> {
  try {
    await redis.call("WAITAOF", 1, 0, 1000);
    return "waitaof";
  } catch (error) {
    if (/timed out|closed|writeable/i.test(messageOf(error))) throw error;
    throw notDurable(
      `neither CONFIG GET nor WAITAOF can be used (${messageOf(error)})`,
      "allow CONFIG GET in the ACL, or use Redis 7.2 or Valkey, whose WAITAOF proves each write",
      error,
    );
  }
}

function parseInfo(text: string): Record<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.includes(":"));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
  );
}

function notDurable(what: string, remedy: string, cause?: unknown): AppError {
  return new AppError("start.redis_not_durable", {
    reason: `Redis cannot keep what a 202 promises: ${what}. Remedy: ${remedy}; or set durability = "relaxed" in postern.toml to accept the loss.`,
    cause,
  });
}
