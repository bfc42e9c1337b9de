import type { Redis } from "ioredis";
import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";

export type DurabilityMode = "strict" | "relaxed";

/**
 * How a reply from this Redis proves that the write is on disk. `always`: Redis calls fsync before it replies. `waitaof`:
 * WAITAOF follows each write on its connection. `none`: nothing proves it (mode relaxed).
 */
export type DiskProof = "always" | "waitaof" | "none";

type ServerState = {
  readonly proof: DiskProof;
  readonly usedMemoryBytes: number;
  /** 0 when Redis has no `maxmemory`. */
  readonly maxMemoryBytes: number;
};

/** What the last check of the server found. */
type State =
  | { readonly kind: "starting" }
  | { readonly kind: "away"; readonly reason: string }
  | { readonly kind: "refused"; readonly error: AppError }
  | { readonly kind: "ready"; readonly server: ServerState };

/** How much has come back on a connection, and when that was first seen. */
type Heard = { readonly at: number; readonly bytes: number };

const WAITAOF_MS = 1200;
/** So long an answer of the server is believed. */
const FRESH_MS = 1000;

/**
 * A connection whose writes are known to be on disk. It checks the server again and again. `write` refuses before the first
 * check has passed, while Redis is away, while its settings cannot keep what a 202 promises, and while it holds the data of
 * another layout.
 */
export class DurableRedis {
  readonly redis: Redis;
  readonly mode: DurabilityMode;
  /** Resolves when the first check has passed; rejects if the first Redis reached cannot be used as it is. */
  readonly firstCheck: Promise<void>;
  readonly #claimLayout: (() => Promise<void>) | undefined;
  readonly #log: Logger;
  readonly #patienceMs: () => number;
  readonly #timer: NodeJS.Timeout | undefined;
  #state: State = { kind: "starting" };
  #connection = 0;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #heard: Heard = { at: 0, bytes: 0 };
  #pendingProof: Promise<void> | undefined;
  #settleFirst: { resolve: () => void; reject: (error: AppError) => void } | undefined;

  constructor({
    redis,
    mode,
    claimLayout,
    log,
    checkEveryMs = FRESH_MS,
    patienceMs = () => 0,
  }: {
    redis: Redis;
    mode: DurabilityMode;
    /** Throws if what Redis holds is not for this release (layout.ts). The runner has none. */
    claimLayout?: () => Promise<void>;
    log: Logger;
    checkEveryMs?: number | "on demand";
    /** For how long Redis may now be busy with something else, and so answer nothing here. */
    patienceMs?: () => number;
  }) {
    this.redis = redis;
    this.mode = mode;
    this.#claimLayout = claimLayout;
    this.#log = log;
    this.#patienceMs = patienceMs;
    this.firstCheck = new Promise((resolve, reject) => {
      this.#settleFirst = { resolve, reject };
    });
    this.firstCheck.catch(() => {});
    redis.on("ready", this.#onReady);
    redis.on("close", this.#onClose);
    if (checkEveryMs !== "on demand") this.#timer = setInterval(() => void this.#check(), checkEveryMs);
    if (redis.status === "ready") this.#onReady();
  }

  /** The server's state at the last check. Throws the reason if calls cannot be taken now. */
  server(): ServerState {
    switch (this.#state.kind) {
      case "ready":
        return this.#state.server;
      case "refused":
        throw new AppError("queue.not_durable", { reason: this.#state.error.message, retryAfterMs: 5000 });
      case "away":
        throw new AppError("queue.unavailable", { reason: this.#state.reason, retryAfterMs: 2000 });
      case "starting":
        throw new AppError("service.starting", {
          reason: "Redis has not been reached yet",
          retryAfterMs: 2000,
        });
    }
  }

  get isUsable(): boolean {
    return this.#state.kind === "ready";
  }

  /** Throws the reason if calls cannot be taken now. */
  assertUsable(): void {
    this.server();
  }

  /** Asks the server how it is, unless it was asked within the last second. */
  async checkNow(): Promise<void> {
    if (performance.now() - this.#checkedAt >= FRESH_MS) await this.#check();
  }

  /**
   * Runs a write and resolves once it is on disk. After a rejection, the write may have happened or not. `extraMs` is how
   * much longer than usual the disk may take.
   */
  async write<Result>(command: () => Promise<Result>, extraMs = 0): Promise<Result> {
    const { proof } = this.server();
    const connection = this.#connection;
    const result = await command();
    if (proof === "waitaof") await this.#proveOnDisk(connection, extraMs);
    return result;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.redis.off("ready", this.#onReady);
    this.redis.off("close", this.#onClose);
  }

  /** WAITAOF proves only earlier writes of its own connection: after a reconnect it would prove nothing. */
  async #proveOnDisk(connection: number, extraMs: number): Promise<void> {
    this.#pendingProof ??= new Promise<void>((resolve, reject) => {
      setImmediate(() => {
        this.#pendingProof = undefined;
        this.#waitAof(extraMs).then(resolve, reject);
      });
    });
    await this.#pendingProof;
    if (connection !== this.#connection) throw new Error("Redis connection changed before WAITAOF answered");
  }

  async #waitAof(extraMs: number): Promise<void> {
    const reply = await this.redis.call("WAITAOF", 1, 0, WAITAOF_MS + extraMs);
    if (Number((reply as unknown[])[0]) < 1)
      throw new Error("WAITAOF timed out: the write is not known to be on disk");
  }

  readonly #onReady = (): void => {
    this.#connection += 1;
    if (this.#timer !== undefined) void this.#check();
  };

  readonly #onClose = (): void => {
    this.#checkedAt = Number.NEGATIVE_INFINITY;
    if (this.#state.kind !== "starting")
      this.#state = { kind: "away", reason: "connection to Redis is closed" };
  };

  async #check(): Promise<void> {
    if (this.redis.status !== "ready") return;
    const connection = this.#connection;
    const next = await this.#ask();
    if (connection !== this.#connection || this.redis.status !== "ready") return;
    this.#checkedAt = performance.now();
    this.#report(next);
    this.#state = next;
    if (next.kind === "ready") this.#settleFirst?.resolve();
    if (next.kind === "refused") this.#settleFirst?.reject(next.error);
  }

  async #ask(): Promise<State> {
    const heard = this.#listen();
    try {
      const server = await readServerState(this.redis, this.mode);
      await this.#claimLayout?.();
      return { kind: "ready", server };
    } catch (error) {
      if (error instanceof AppError) return { kind: "refused", error };
      if (messageOf(error).includes("timed out")) {
        const hasMoved = this.#listen() !== heard;
        if (hasMoved || performance.now() - heard.at < this.#patienceMs()) return this.#state;
        this.#reconnect();
      }
      return { kind: "away", reason: messageOf(error) };
    }
  }

  /** Another one than before if anything has come back since. */
  #listen(): Heard {
    const { bytesRead } = this.redis.stream;
    if (bytesRead !== this.#heard.bytes) this.#heard = { at: performance.now(), bytes: bytesRead };
    return this.#heard;
  }

  /** A connection on which nothing comes back may be dead without having closed; a new one shows whether Redis is alive. */
  #reconnect(): void {
    this.#log.warn("redis.silent");
    this.redis.disconnect(true);
  }

  #report(next: State): void {
    if (next.kind === this.#state.kind) return;
    if (next.kind === "refused") this.#log.error("redis.refused", { reason: next.error.message });
    if (next.kind === "ready")
      this.#log.info("redis.ready", { durability: this.mode, proof: next.server.proof });
  }
}

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
  const config = await readConfig(redis);
  if (config === undefined) return requireWaitAof(redis);
  if (config["maxmemory-policy"] !== undefined && config["maxmemory-policy"] !== "noeviction") {
    throw notDurable(
      `maxmemory-policy is ${config["maxmemory-policy"]}`,
      "set `maxmemory-policy noeviction`",
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

/** Undefined if the ACL, or a managed Redis, forbids CONFIG GET. */
async function readConfig(redis: Redis): Promise<Record<string, string> | undefined> {
  try {
    const [fsync, policy] = await Promise.all([
      redis.config("GET", "appendfsync"),
      redis.config("GET", "maxmemory-policy"),
    ]);
    const flat = [...toPairs(fsync), ...toPairs(policy)];
    return Object.fromEntries(flat);
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
