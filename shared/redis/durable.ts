import { setImmediate as nextTurn } from "node:timers/promises";
import type { Redis } from "ioredis";
import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import { delay } from "../platform/time/clock.ts";
import { findsPrimary } from "./connector.ts";
import { deniedAs, failureOf } from "./failure.ts";
import { proverOf } from "./prover.ts";
import {
  type DurabilityMode,
  FAILOVER,
  FULL_COVERAGE,
  readServerState,
  type ServerState,
  UNBOUNDED,
} from "./server-state.ts";

/**
 * Maps the error code of a failed check of the server to the code of the error that requests get. Any other code becomes
 * `queue.not_durable`.
 */
const REFUSALS: Partial<Record<ErrorCode, ErrorCode>> = {
  "start.redis_denied": "queue.denied",
  "start.wrong_redis": "queue.wrong_redis",
};

/** Result of the last check of the server. */
type State =
  | { readonly kind: "starting"; readonly reason: string }
  | { readonly kind: "away"; readonly reason: string }
  | { readonly kind: "refused"; readonly error: AppError }
  | { readonly kind: "ready"; readonly server: ServerState };

/**
 * Number of bytes that this process has read from a connection, and when this number was first seen. While it stays the same,
 * the server is silent.
 */
type Heard = { readonly at: number; readonly bytes: number };

/** Time for which this process reports Redis as full after a write was refused for lack of memory or disk. */
const FULL_MS = 10_000;
/** Time for which this process refuses work after a denied write. */
const DENIED_MS = 5000;
/** Time for which a check of the server counts as recent. */
const FRESH_MS = 1000;

/** Once one partition can be used, a starting process waits at most this long for the others. */
const OTHERS_MS = 2000;

/**
 * Resolves once all partitions can be used, or one can and the others had some time for their first check. Rejects if one of
 * them must not be used.
 */
export async function firstCheckOf(all: readonly Pick<DurableRedis, "firstCheck">[]): Promise<void> {
  const checks = all.map(({ firstCheck }) => firstCheck);
  const [first] = checks;
  if (checks.length === 1) return first;
  const some = Promise.any(checks).then(() => delay(OTHERS_MS));
  await Promise.race([Promise.all(checks), some]);
}

/**
 * A connection to Redis that checks periodically whether its writes are safe on disk. `write` throws before the first check
 * has passed and while Redis is away. It also throws while Redis' settings cannot keep what a 202 promises, and while Redis
 * has data of another layout.
 */
export class DurableRedis {
  readonly redis: Redis;
  readonly mode: DurabilityMode;
  /**
   * Resolves when the first check has passed. Rejects if the first Redis that was reached has wrong settings or another
   * layout.
   */
  readonly firstCheck: Promise<void>;
  readonly #checkData: (() => Promise<unknown>) | undefined;
  readonly #onUsable: (() => void) | undefined;
  readonly #log: Logger;
  readonly #patienceMs: () => number;
  readonly #timer: NodeJS.Timeout | undefined;
  #state: State = { kind: "starting", reason: "not connected to Redis yet" };
  #connection = 0;
  #checkedAt = Number.NEGATIVE_INFINITY;
  /** Whether Redis had a `maxmemory` at the last check. */
  #isBounded: boolean | undefined;
  #needsFullCoverage = false;
  #isWarnedOfFailover = false;
  #heard: Heard = { at: 0, bytes: 0 };
  #full: { readonly at: number; readonly reason: string } | undefined;
  #deniedAt = Number.NEGATIVE_INFINITY;
  /** Number of the connection that is being checked. */
  #checking: number | undefined;
  #settleFirst: { resolve: () => void; reject: (error: AppError) => void } | undefined;

  constructor({
    redis,
    mode,
    checkData,
    onUsable,
    log,
    checkEveryMs = FRESH_MS,
    patienceMs = () => 0,
  }: {
    redis: Redis;
    mode: DurabilityMode;
    /**
     * Checks the data by reading a key. Throws if the data is not for this release (layout.ts), or if this node of a Cluster
     * does not have our keys.
     */
    checkData?: () => Promise<unknown>;
    /** Called when the first check has passed, and each time Redis becomes usable again. */
    onUsable?: () => void;
    log: Logger;
    checkEveryMs?: number | "on demand";
    /**
     * Returns the time in ms for which Redis may be silent on this connection, because it is busy with a large write on
     * another one. Default: 0.
     */
    patienceMs?: () => number;
  }) {
    this.redis = redis;
    this.mode = mode;
    this.#checkData = checkData;
    this.#onUsable = onUsable;
    this.#log = log;
    this.#patienceMs = patienceMs;
    this.firstCheck = new Promise((resolve, reject) => {
      this.#settleFirst = { resolve, reject };
    });
    this.firstCheck.catch(() => {});
    redis.on("ready", this.#onReady);
    redis.on("error", this.#onError);
    redis.on("close", this.#onClose);
    if (checkEveryMs !== "on demand") this.#timer = setInterval(() => void this.#check(), checkEveryMs);
    if (redis.status === "ready") this.#onReady();
  }

  /** Returns the server's state at the last check. Throws the reason if calls cannot be accepted now. */
  server(): ServerState {
    switch (this.#state.kind) {
      case "ready":
        return this.#state.server;
      case "refused": {
        const { code, message: reason } = this.#state.error;
        throw new AppError(REFUSALS[code] ?? "queue.not_durable", { reason, retryAfterMs: 5000 });
      }
      case "away":
        throw new AppError("queue.unavailable", { reason: this.#state.reason, retryAfterMs: RETRY_AFTER_MS });
      case "starting":
        throw new AppError("service.starting", { reason: this.#state.reason, retryAfterMs: RETRY_AFTER_MS });
    }
  }

  get isUsable(): boolean {
    return this.#state.kind === "ready";
  }

  /** True if Redis is reachable but must not be used. */
  get isRefused(): boolean {
    return this.#state.kind === "refused";
  }

  /**
   * Notes that Redis refused a write because it is full (OOM, MISCONF). This process stays ready, because work that needs no
   * memory continues.
   */
  noteFull(reason: string): void {
    if (this.fullReason === undefined) this.#log.warn("redis.full", { reason });
    this.#full = { at: performance.now(), reason };
  }

  /**
   * Notes that Redis denied a write. The checks do not notice this, because they write nothing. So this process refuses work
   * for some seconds even if they pass.
   */
  noteDenied(error: unknown): void {
    this.#deniedAt = performance.now();
    this.#become({ kind: "refused", error: deniedAs("start.redis_denied", error) });
  }

  /** The reason why Redis was too full for a write in the last ten seconds; undefined if it was not. */
  get fullReason(): string | undefined {
    const full = this.#full;
    return full !== undefined && performance.now() - full.at < FULL_MS ? full.reason : undefined;
  }

  /** Throws the reason if calls cannot be accepted now. */
  assertUsable(): void {
    this.server();
  }

  /** Checks the server, unless it was checked within the last second. */
  async checkNow(): Promise<void> {
    if (performance.now() - this.#checkedAt >= FRESH_MS) await this.#check();
  }

  /** Runs a write and resolves once it is on disk. If it rejects, the write may have happened or not. */
  async write<Result>(command: () => Promise<Result>): Promise<Result> {
    this.assertUsable();
    return await command();
  }

  /** Ends the checks; a check in flight reports nothing. Call this before the connection is closed. */
  stop(): void {
    this.#connection += 1;
    clearInterval(this.#timer);
    this.redis.off("ready", this.#onReady);
    this.redis.off("error", this.#onError);
    this.redis.off("close", this.#onClose);
  }

  readonly #onReady = (): void => {
    this.#connection += 1;
    if (this.#timer !== undefined) void this.#check();
  };

  /** Handles an error of the connection, such as no answer or a refused login. */
  readonly #onError = (error: Error): void => {
    const failure = failureOf(error);
    const reason = messageOf(error);
    if (failure === "denied") this.#become({ kind: "refused", error: deniedAs("start.redis_denied", error) });
    else if (this.#state.kind === "starting")
      this.#state = { kind: "starting", reason: `not connected to Redis yet: ${reason}` };
    // When a denied connection is closed, an `unsent` error follows. The denial remains the reason.
    else if (failure !== "unsent") this.#state = { kind: "away", reason };
  };

  readonly #onClose = (): void => {
    this.#checkedAt = Number.NEGATIVE_INFINITY;
    if (this.#state.kind === "ready")
      this.#state = { kind: "away", reason: "the connection to Redis is closed" };
  };

  async #check(): Promise<void> {
    const connection = this.#connection;
    if (this.redis.status !== "ready" || this.#checking === connection) return;
    this.#checking = connection;
    const next = await this.#ask();
    if (this.#checking === connection) this.#checking = undefined;
    if (connection !== this.#connection || this.redis.status !== "ready") return;
    this.#checkedAt = performance.now();
    if (next.kind === "ready" && this.#checkedAt - this.#deniedAt < DENIED_MS) return;
    this.#become(next);
  }

  #become(next: State): void {
    const wasUsable = this.isUsable;
    this.#report(next);
    this.#state = next;
    if (next.kind === "ready") this.#settleFirst?.resolve();
    if (this.isUsable && !wasUsable) this.#onUsable?.();
    // If this is a wrong Redis, a starting process keeps waiting: the right Redis may replace it without a restart of the
    // process.
    if (next.kind === "refused" && next.error.code !== "start.wrong_redis")
      this.#settleFirst?.reject(next.error);
  }

  async #ask(): Promise<State> {
    const heard = this.#lastHeard();
    try {
      const server = await readServerState(this.redis, this.mode);
      await this.#checkData?.();
      return { kind: "ready", server };
    } catch (error) {
      if (error instanceof AppError)
        return error.code === "queue.unavailable"
          ? { kind: "away", reason: error.message }
          : { kind: "refused", error };
      if (failureOf(error) === "denied")
        return { kind: "refused", error: deniedAs("start.redis_denied", error) };
      if (messageOf(error).includes("timed out")) {
        // After a suspension of this process, the timeout can fire although the reply has arrived, because it was not read
        // yet. So this waits until it is read.
        await nextTurn();
        const hasMoved = this.#lastHeard() !== heard;
        if (hasMoved || performance.now() - heard.at < this.#patienceMs()) return this.#state;
        this.#reconnect();
      }
      return { kind: "away", reason: messageOf(error) };
    }
  }

  /**
   * Returns when the newest data arrived on this connection. The returned object stays the same until more data arrives, so
   * callers can compare it.
   */
  #lastHeard(): Heard {
    const { bytesRead } = this.redis.stream;
    if (bytesRead !== this.#heard.bytes) this.#heard = { at: performance.now(), bytes: bytesRead };
    return this.#heard;
  }

  /** Reconnects. The silent connection may be dead although it was never closed. A new one shows whether Redis is alive. */
  #reconnect(): void {
    this.#log.warn("redis.unresponsive");
    this.redis.disconnect(true);
  }

  #report(next: State): void {
    if (next.kind === "ready") this.#reportServer(next.server);
    if (next.kind === "refused") {
      const before = this.#state.kind === "refused" ? this.#state.error.message : undefined;
      const { code, message: reason } = next.error;
      if (reason !== before) this.#log.error("redis.unusable", { code, reason });
      return;
    }
    if (next.kind === this.#state.kind) return;
    if (next.kind === "away") this.#log.warn("redis.unavailable", { reason: next.reason });
    if (next.kind === "ready")
      this.#log.info("redis.ready", { durability: this.mode, proof: next.server.proof });
  }

  /** Warns about risky settings. Repeats a warning only if the setting was corrected in between. */
  #reportServer({ maxMemoryBytes, needsFullCoverage }: ServerState): void {
    const isBounded = maxMemoryBytes > 0;
    if (!isBounded && this.#isBounded !== false) this.#log.warn("redis.unbounded", { reason: UNBOUNDED });
    this.#isBounded = isBounded;
    if (needsFullCoverage && !this.#needsFullCoverage)
      this.#log.warn("redis.full_coverage", { reason: FULL_COVERAGE });
    this.#needsFullCoverage = needsFullCoverage;
    if (this.mode !== "strict" || this.#isWarnedOfFailover || !findsPrimary(this.redis)) return;
    this.#isWarnedOfFailover = true;
    this.#log.warn("redis.failover_unproven", { reason: FAILOVER });
  }
}

/** Registers gauges of the partitions: whether this process uses them, the proof of their writes, and their replicas. */
export function registerUsable(
  metrics: Metrics,
  servers: () => readonly Pick<DurableRedis, "isUsable" | "server" | "redis">[],
): void {
  const usable = metrics.gauge(
    "postern_redis_usable",
    "1 while this process uses the partition; 0 while it is away or refused",
    ["partition"],
  );
  const proof = metrics.gauge(
    "postern_redis_proof_info",
    "1, with how a write of this process is known to be on disk",
    ["partition", "proof"],
  );
  const replicas = metrics.gauge(
    "postern_redis_replicas",
    'Replicas of the partition\'s primary with durability = "replicated", by what is known of them',
    ["partition", "state"],
  );
  metrics.beforeScrape(() => {
    proof.reset();
    replicas.reset();
    for (const [partition, server] of servers().entries()) {
      for (const [state, count] of Object.entries(proverOf(server.redis)?.replicas() ?? {}))
        replicas.set({ partition, state }, count);
      usable.set({ partition }, Number(server.isUsable));
      if (server.isUsable) proof.set({ partition, proof: server.server().proof }, 1);
    }
  });
}
