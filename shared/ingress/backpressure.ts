import type { Origin } from "../call/origin.ts";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { OriginDepth } from "../queue/depth.ts";
import { createDepthGauges, oldestAgeOf } from "../queue/depth-metrics.ts";
import { lastBeats } from "../queue/heartbeat.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { PAYMENTS_PART } from "../redis/give-way.ts";
import type { Partition } from "../redis/partition.ts";

export type Limits = {
  queueDepthMax: number;
  /** Of all calls in all queues, as stored. */
  queueBytesMax: number;
  oldestAgeMsMax: number | undefined;
  redisMemoryRatioMax: number;
};

/** The limits of a gateway of this origin. Payments are refused earlier, so that they cannot close the webhooks gateway. */
export function limitsOf(origin: Origin, limits: Limits): Limits {
  if (origin !== "x402") return limits;
  return {
    ...limits,
    queueBytesMax: PAYMENTS_PART * limits.queueBytesMax,
    redisMemoryRatioMax: PAYMENTS_PART * limits.redisMemoryRatioMax,
  };
}

/** The queues behind a gateway, as last seen. */
export type Pressure = {
  depth: OriginDepth;
  oldestAgeMs: number;
  /** 0 when Redis has no `maxmemory`. */
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

const LOOK_EVERY_MS = 1000;
/** A reading is shown for the time of this many looks. */
const LOOKS_MISSED = 10;

/** Looks at the queue once a second, so that no request pays for it. */
export class Backpressure {
  readonly #options: Options;
  readonly #timer: NodeJS.Timeout;
  #seen: Pressure | undefined;
  #seenAt = Number.NEGATIVE_INFINITY;
  #over: OverLimit | undefined;
  /** By receiver: the bytes of its callbacks, where these are too many. */
  #crowded: ReadonlyMap<string, number> = new Map();

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#look(), this.#everyMs);
    options.durable.redis.on("ready", this.#onReady);
    void this.#look();
  }

  /** Throws `queue.overloaded` while a limit is exceeded: one for all calls, or the one for this job. */
  assertRoom(job?: string): void {
    const over = this.#over ?? (job === undefined ? undefined : this.#tooOld(job));
    if (over === undefined) return;
    const { limit, reason } = over;
    const publicDetail = `over the limit: ${limit}`;
    throw new AppError("queue.overloaded", { reason, publicDetail, retryAfterMs: 5000 });
  }

  /** Throws `queue.overloaded` while too many callbacks wait for this receiver, or have failed there. Other receivers have room. */
  assertRoomAt(receiver: string): void {
    const bytes = this.#crowded.get(receiver);
    if (bytes === undefined) return;
    throw new AppError("queue.overloaded", {
      reason: `the callbacks to ${receiver} take ${bytes} bytes`,
      publicDetail: "over the limit: callbacks that wait for the receiver that the request names",
      retryAfterMs: 60_000,
    });
  }

  /** Undefined before the first look, while the partition cannot be used, and once many looks have failed. */
  seen(): Pressure | undefined {
    const isKnown = performance.now() - this.#seenAt < LOOKS_MISSED * this.#everyMs;
    return isKnown && this.#options.durable.isUsable ? this.#seen : undefined;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#options.durable.redis.off("ready", this.#onReady);
  }

  get #everyMs(): number {
    return this.#options.everyMs ?? LOOK_EVERY_MS;
  }

  /** Calls of other jobs may be taken. */
  #tooOld(job: string): OverLimit | undefined {
    const { oldestAgeMsMax } = this.#options.limits;
    const since = this.#seen?.depth.untriedSince.get(job);
    if (oldestAgeMsMax === undefined || since === undefined) return undefined;
    const ageMs = this.#options.clock() - since;
    if (ageMs <= oldestAgeMsMax) return undefined;
    const reason = `the oldest call of job ${job} has waited for ${ageMs} ms, limit ${oldestAgeMsMax}`;
    return { limit: "age of the job's oldest call", reason };
  }

  readonly #onReady = (): void => void this.#look();

  async #look(): Promise<void> {
    const { durable, partition, readDepth, clock, log, limits } = this.#options;
    if (durable.redis.status !== "ready") return;
    try {
      const { usedMemoryBytes, maxMemoryBytes } = durable.server();
      const depth = await readDepth();
      this.#seen = {
        depth,
        oldestAgeMs: oldestAgeOf(depth, clock()),
        memoryRatio: maxMemoryBytes === 0 ? 0 : usedMemoryBytes / maxMemoryBytes,
        maxMemoryBytes,
        workersAlive: (await lastBeats(partition)).length,
      };
      this.#seenAt = performance.now();
      this.#judge(overLimit(this.#seen, limits));
      this.#crowded = crowdedReceivers(this.#seen, limits);
    } catch (error) {
      if (!(error instanceof AppError)) log.warn("backpressure.check_failed", { reason: messageOf(error) });
    }
  }

  #judge(over: OverLimit | undefined): void {
    const { log } = this.#options;
    if (over !== undefined && over.limit !== this.#over?.limit) log.warn("backpressure.began", { ...over });
    if (over === undefined && this.#over !== undefined) log.info("backpressure.ended");
    this.#over = over;
  }
}

/** Senders are told the limit; the log also says by how much it is exceeded. */
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

/** All callbacks together may take this part of the bytes of all calls. */
const CALLBACKS_SHARE = 1 / 8;
/** A receiver may have callbacks that take this part of what all others leave free. */
const RECEIVER_SHARE = 1 / 4;

/**
 * The receivers with more callbacks than they may have. One alone gets a fifth of the room of all callbacks, and n together n of n + 4
 * parts: whatever dead receivers hold, some is left for another. What an operator's own receiver has above that fifth does not count
 * against others: no request names it, so none is refused for it.
 */
function crowdedReceivers({ depth, maxMemoryBytes }: Pressure, { queueBytesMax }: Limits) {
  const { bytes, byReceiver } = depth.callbacks;
  const room = CALLBACKS_SHARE * Math.min(queueBytesMax, maxMemoryBytes || Number.POSITIVE_INFINITY);
  const mostOfOne = (room * RECEIVER_SHARE) / (1 + RECEIVER_SHARE);
  const above = [...byReceiver.values()].reduce((sum, own) => sum + Math.max(0, own - mostOfOne), 0);
  const free = Math.max(0, room - (bytes - above));
  return new Map([...byReceiver].filter(([, own]) => own > free * RECEIVER_SHARE));
}

/** Gauges of the queues of each partition. A partition whose queues are unknown has none. */
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
