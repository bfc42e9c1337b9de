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

/** Code for requests while Redis is refused, by the code of the check. */
const REFUSALS: Partial<Record<ErrorCode, ErrorCode>> = {
  "start.redis_denied": "queue.denied",
  "start.wrong_redis": "queue.wrong_redis",
};

/** What the last check of the server found. */
type State =
  | { readonly kind: "starting"; readonly reason: string }
  | { readonly kind: "away"; readonly reason: string }
  | { readonly kind: "refused"; readonly error: AppError }
  | { readonly kind: "ready"; readonly server: ServerState };

/** How much has come back on a connection, and when that was first seen. */
type Heard = { readonly at: number; readonly bytes: number };

/** A write that Redis had no room for is reported for this long. */
const FULL_MS = 10_000;
/** A write that Redis denied closes for this long. */
const DENIED_MS = 5000;
/** How long an answer of the server is believed. */
const FRESH_MS = 1000;

/** Once one partition can be used, a start waits so long for the others. */
const OTHERS_MS = 2000;

/** Resolves once some partitions can be used; rejects if one of those that answer in time must not be used. */
export async function firstCheckOf(all: readonly Pick<DurableRedis, "firstCheck">[]): Promise<void> {
  const checks = all.map(({ firstCheck }) => firstCheck);
  const [first] = checks;
  if (checks.length === 1) return first;
  const some = Promise.any(checks).then(() => delay(OTHERS_MS));
  await Promise.race([Promise.all(checks), some]);
}

/**
 * A connection whose writes are known to be on disk. It checks the server again and again. `write` refuses before the first
 * check has passed, while Redis is away, while its settings cannot keep what a 202 promises, and while it holds the data of
 * another layout.
 */
export class DurableRedis {
  readonly redis: Redis;
  readonly mode: DurabilityMode;
  /** Resolves when the first check has passed; rejects if the first Redis reached has wrong settings or another layout. */
  readonly firstCheck: Promise<void>;
  readonly #checkData: (() => Promise<unknown>) | undefined;
  readonly #onUsable: (() => void) | undefined;
  readonly #log: Logger;
  readonly #patienceMs: () => number;
  readonly #timer: NodeJS.Timeout | undefined;
  #state: State = { kind: "starting", reason: "not connected to Redis yet" };
  #connection = 0;
  #checkedAt = Number.NEGATIVE_INFINITY;
  /** Whether Redis had a `maxmemory` when it was asked last. */
  #isBounded: boolean | undefined;
  #needsFullCoverage = false;
  #isWarnedOfFailover = false;
  #heard: Heard = { at: 0, bytes: 0 };
  #full: { readonly at: number; readonly reason: string } | undefined;
  #deniedAt = Number.NEGATIVE_INFINITY;
  /** The connection of the check in flight. */
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
    /** Reads a key. Throws if what Redis holds is not for this release (layout.ts), and at a node of a cluster without our keys. */
    checkData?: () => Promise<unknown>;
    /** Called when the first check has passed, and whenever a check passes again after Redis could not be used. */
    onUsable?: () => void;
    log: Logger;
    checkEveryMs?: number | "on demand";
    /** For how long Redis may now be busy with something else, and so answer nothing here. */
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

  /** The server's state at the last check. Throws the reason if calls cannot be taken now. */
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

  /** Whether Redis is there and must not be used. */
  get isRefused(): boolean {
    return this.#state.kind === "refused";
  }

  /** Redis had no room for a write (OOM, MISCONF). What needs none goes on, so this process stays ready. */
  noteFull(reason: string): void {
    if (this.fullReason === undefined) this.#log.warn("redis.full", { reason });
    this.#full = { at: performance.now(), reason };
  }

  /** Redis denied a write. A check does not try that right, so it may not open this process for some seconds. */
  noteDenied(error: unknown): void {
    this.#deniedAt = performance.now();
    this.#become({ kind: "refused", error: deniedAs("start.redis_denied", error) });
  }

  /** Why Redis had no room for a write in the last seconds. */
  get fullReason(): string | undefined {
    const full = this.#full;
    return full !== undefined && performance.now() - full.at < FULL_MS ? full.reason : undefined;
  }

  /** Throws the reason if calls cannot be taken now. */
  assertUsable(): void {
    this.server();
  }

  /** Asks the server how it is, unless it was asked within the last second. */
  async checkNow(): Promise<void> {
    if (performance.now() - this.#checkedAt >= FRESH_MS) await this.#check();
  }

  /** Runs a write and resolves once it is on disk. After a rejection, the write may have happened or not. */
  async write<Result>(command: () => Promise<Result>): Promise<Result> {
    this.assertUsable();
    return await command();
  }

  /** To be called before the connection is closed. A check in flight reports nothing more. */
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

  /** The connection could not be made, or not as it must be. */
  readonly #onError = (error: Error): void => {
    const failure = failureOf(error);
    const reason = messageOf(error);
    if (failure === "denied") this.#become({ kind: "refused", error: deniedAs("start.redis_denied", error) });
    else if (this.#state.kind === "starting")
      this.#state = { kind: "starting", reason: `not connected to Redis yet: ${reason}` };
    // A connection that is closed because of what was denied tells nothing new.
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
    // The right Redis may come: it needs no restart of this process.
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
        // If this process stood still, its timer ends before it reads what has come meanwhile.
        await nextTurn();
        const hasMoved = this.#lastHeard() !== heard;
        if (hasMoved || performance.now() - heard.at < this.#patienceMs()) return this.#state;
        this.#reconnect();
      }
      return { kind: "away", reason: messageOf(error) };
    }
  }

  /** The same object until something comes back. */
  #lastHeard(): Heard {
    const { bytesRead } = this.redis.stream;
    if (bytesRead !== this.#heard.bytes) this.#heard = { at: performance.now(), bytes: bytesRead };
    return this.#heard;
  }

  /** A connection on which nothing comes back may be dead without having closed; a new one shows whether Redis is alive. */
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

  /** Warns of each setting once, until it is changed. */
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

/** Shows which partitions a process uses now, by the rule by which it uses and refuses them. */
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
