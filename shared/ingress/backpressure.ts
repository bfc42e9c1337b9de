import type { Origin } from "../call/origin.ts";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { OriginDepth } from "../queue/depth.ts";
import { createDepthGauges, oldestAgeOf } from "../queue/depth-metrics.ts";
import { lastBeats } from "../queue/heartbeat.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { PAYMENTS_PART } from "../redis/eviction.ts";
import type { Partition } from "../redis/partition.ts";

export type Limits = {
  queueDepthMax: number;
  /** Limit on the stored bytes of all calls in all queues. */
  queueBytesMax: number;
  oldestAgeMsMax: number | undefined;
  redisMemoryRatioMax: number;
};

/**
 * Returns the limits for a gateway of this origin. The payment gateway has lower limits. So it refuses calls before its
 * own calls fill Redis so far that the webhooks gateway must refuse calls too.
 */
export function limitsOf(origin: Origin, limits: Limits): Limits {
  if (origin !== "x402") return limits;
  return {
    ...limits,
    queueBytesMax: PAYMENTS_PART * limits.queueBytesMax,
    redisMemoryRatioMax: PAYMENTS_PART * limits.redisMemoryRatioMax,
  };
}

/** State of a gateway's queues and of Redis at the latest check. */
export type Pressure = {
  depth: OriginDepth;
  oldestAgeMs: number;
  /** 0 if Redis has no `maxmemory`. */
  memoryRatio: number;
  maxMemoryBytes: number;
  workersAlive: number;
};

type Options = {
  durable: DurableRedis;
  partition: Partition;
  readDepth: () => Promise<OriginDepth>;
  limits: Limits;
  clock: Clock;
  log: Logger;
  everyMs?: number;
};

const CHECK_EVERY_MS = 1000;
/** Number of check intervals for which the last result is still reported by `latest` while further checks fail. */
const FAILED_CHECKS_MAX = 10;

/**
 * Decides whether the gateway accepts further calls, by limits on the queues and on Redis' memory. It reads both once a
 * second, so that requests need not read them.
 */
export class Backpressure {
  readonly #options: Options;
  readonly #timer: NodeJS.Timeout;
  #latest: Pressure | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #over: OverLimit | undefined;
  /** Receivers whose callbacks are over the limit, with the bytes of their callbacks. */
  #overfull: ReadonlyMap<string, number> = new Map();

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#check(), this.#everyMs);
    options.durable.redis.on("ready", this.#onReady);
    void this.#check();
  }

  /** Throws `queue.overloaded` while a limit for all calls or for this job is exceeded. */
  assertCapacity(job?: string): void {
    const over = this.#over ?? (job === undefined ? undefined : this.#tooOld(job));
    if (over === undefined) return;
    const { limit, reason } = over;
    const publicDetail = `over the limit: ${limit}`;
    throw new AppError("queue.overloaded", { reason, publicDetail, retryAfterMs: 5000 });
  }

  /**
   * Throws `queue.overloaded` while the callbacks to this receiver that wait or have failed take too many bytes. Calls
   * with callbacks to other receivers are still accepted.
   */
  assertReceiverCapacity(receiver: string): void {
    const bytes = this.#overfull.get(receiver);
    if (bytes === undefined) return;
    throw new AppError("queue.overloaded", {
      reason: `the callbacks to ${receiver} take ${bytes} bytes`,
      publicDetail: "over the limit: callbacks that wait for the receiver that the request names",
      retryAfterMs: 60_000,
    });
  }

  /**
   * Returns the state that the latest successful check found. Undefined before the first check, while the partition
   * cannot be used, and after many failed checks.
   */
  latest(): Pressure | undefined {
    const isKnown = performance.now() - this.#checkedAt < FAILED_CHECKS_MAX * this.#everyMs;
    return isKnown && this.#options.durable.isUsable ? this.#latest : undefined;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#options.durable.redis.off("ready", this.#onReady);
  }

  get #everyMs(): number {
    return this.#options.everyMs ?? CHECK_EVERY_MS;
  }

  /** Returns the age limit if the oldest call of this job exceeds it. Calls of other jobs are still accepted. */
  #tooOld(job: string): OverLimit | undefined {
    const { oldestAgeMsMax } = this.#options.limits;
    const since = this.#latest?.depth.untriedSince.get(job);
    if (oldestAgeMsMax === undefined || since === undefined) return undefined;
    const ageMs = this.#options.clock() - since;
    if (ageMs <= oldestAgeMsMax) return undefined;
    const reason = `the oldest call of job ${job} has waited for ${ageMs} ms, limit ${oldestAgeMsMax}`;
    return { limit: "age of the job's oldest call", reason };
  }

  readonly #onReady = (): void => void this.#check();

  async #check(): Promise<void> {
    const { durable, partition, readDepth, clock, log, limits } = this.#options;
    if (durable.redis.status !== "ready") return;
    try {
      const { usedMemoryBytes, maxMemoryBytes } = durable.server();
      const depth = await readDepth();
      this.#latest = {
        depth,
        oldestAgeMs: oldestAgeOf(depth, clock()),
        memoryRatio: maxMemoryBytes === 0 ? 0 : usedMemoryBytes / maxMemoryBytes,
        maxMemoryBytes,
        workersAlive: (await lastBeats(partition)).length,
      };
      this.#checkedAt = performance.now();
      this.#setOver(overLimit(this.#latest, limits));
      this.#overfull = overfullReceivers(this.#latest, limits);
    } catch (error) {
      if (!(error instanceof AppError)) log.warn("backpressure.check_failed", { reason: messageOf(error) });
    }
  }

  #setOver(over: OverLimit | undefined): void {
    const { log } = this.#options;
    if (over !== undefined && over.limit !== this.#over?.limit) log.warn("backpressure.began", { ...over });
    if (over === undefined && this.#over !== undefined) log.info("backpressure.ended");
    this.#over = over;
  }
}

/** Exceeded limit. Senders see only `limit`; the log also has `reason`, with the measured value. */
type OverLimit = {
  limit: "queue depth" | "queue bytes" | "Redis memory" | "age of the job's oldest call";
  reason: string;
};

function overLimit(seen: Pressure, limits: Limits): OverLimit | undefined {
  const { depth, memoryRatio } = seen;
  const queued = depth.waiting + depth.delayed + depth.held + depth.active;
  if (queued >= limits.queueDepthMax) {
    return { limit: "queue depth", reason: `the queue holds ${queued} calls, limit ${limits.queueDepthMax}` };
  }
  if (depth.bytes >= limits.queueBytesMax) {
    const reason = `the calls in all queues take ${depth.bytes} bytes, limit ${limits.queueBytesMax}`;
    return { limit: "queue bytes", reason };
  }
  if (memoryRatio > limits.redisMemoryRatioMax) {
    const reason = `Redis uses ${memoryRatio.toFixed(2)} of its maxmemory, limit ${limits.redisMemoryRatioMax}`;
    return { limit: "Redis memory", reason };
  }
  return undefined;
}

/** Share of the queue bytes that all callbacks together may use. */
const CALLBACKS_SHARE = 1 / 8;
/** Limit on one receiver's callbacks, as a fraction of the bytes that are still free for callbacks. */
const RECEIVER_SHARE = 1 / 4;

/**
 * Returns the receivers whose callbacks take more than a quarter of the bytes that are free for callbacks, and the
 * bytes that each takes. Calls that name such a receiver are refused. One receiver alone can take a fifth of the
 * capacity, which is a quarter of the remaining four fifths. Together, n receivers can take n/(n + 4) of it. So
 * receivers that do not answer always leave some bytes for another one. Only the operator's own receiver
 * (`callback_url`) can exceed a fifth: requests do not name it, so its calls are never refused here. Its bytes above a
 * fifth count as free, so that they take nothing from the other receivers.
 */
function overfullReceivers({ depth, maxMemoryBytes }: Pressure, { queueBytesMax }: Limits) {
  const { bytes, byReceiver } = depth.callbacks;
  const capacity = CALLBACKS_SHARE * Math.min(queueBytesMax, maxMemoryBytes || Number.POSITIVE_INFINITY);
  const mostOfOne = (capacity * RECEIVER_SHARE) / (1 + RECEIVER_SHARE);
  const above = [...byReceiver.values()].reduce((sum, own) => sum + Math.max(0, own - mostOfOne), 0);
  const free = Math.max(0, capacity - (bytes - above));
  return new Map([...byReceiver].filter(([, own]) => own > free * RECEIVER_SHARE));
}

/**
 * Registers the gauges of each partition's queues and memory. They have no value for a partition whose state is
 * unknown.
 */
export function registerPressure(
  metrics: Metrics,
  origin: Origin,
  pressures: () => readonly (Pressure | undefined)[],
): void {
  const queues = createDepthGauges(metrics, origin);
  const bytes = metrics.gauge(
    "postern_queue_bytes",
    "Size of the stored calls of all origins, failed ones included",
    ["partition"],
  );
  const memory = metrics.gauge(
    "postern_redis_memory_ratio",
    "Redis' used memory divided by its maxmemory; 0 without a maxmemory",
    ["partition"],
  );
  const maxMemory = metrics.gauge(
    "postern_redis_maxmemory_bytes",
    "Redis' maxmemory; 0 without a limit, and then Redis memory never causes backpressure",
    ["partition"],
  );
  const workers = metrics.gauge("postern_workers_alive", "Producers with a recent heartbeat", ["partition"]);
  metrics.beforeScrape(() => {
    for (const gauge of [queues, bytes, memory, maxMemory, workers]) gauge.reset();
    for (const [partition, seen] of pressures().entries()) {
      if (seen === undefined) continue;
      queues.set(partition, seen.depth, seen.oldestAgeMs);
      bytes.set({ partition }, seen.depth.bytes);
      memory.set({ partition }, seen.memoryRatio);
      maxMemory.set({ partition }, seen.maxMemoryBytes);
      workers.set({ partition }, seen.workersAlive);
    }
  });
}
