import type { Redis } from "ioredis";
import type { Metrics } from "../platform/metrics/metrics.ts";
import type { Clock } from "../platform/time/clock.ts";

/** Redis' time is read again after this time, because an operator or NTP may correct the clock of Redis' machine. */
const READ_EVERY_MS = 10_000;

/**
 * Estimate of Redis' clock: the time that Redis last returned, continued by the process's monotonic clock. Changes of the
 * machine's clock do not affect it. Its error is at most the time from a request to its reply. A script that must be exact
 * calls TIME itself (now.lua).
 */
export type RedisClock = {
  /** Returns unix ms by Redis' clock. Until Redis' time is known, returns unix ms by the process's clock. */
  readonly now: Clock;
  /**
   * Time in ms by which the process's clock is ahead of Redis' clock; negative if it is behind. Undefined until Redis' time is
   * known.
   */
  readonly aheadMs: () => number | undefined;
  /** Reads Redis' time. Rejects if Redis does not answer. */
  readonly read: () => Promise<void>;
};

const clocks = new WeakMap<Redis, RedisClock>();

/**
 * Registers a gauge of how far the process's clock is ahead of Redis' clock. With several Redis, it shows the largest
 * difference. It is NaN while Redis' time is unknown.
 */
export function registerClock(metrics: Metrics, ...all: readonly Redis[]): void {
  const ahead = metrics.gauge(
    "postern_clock_ahead_seconds",
    "How far this process's clock is ahead of Redis' clock; negative if it is behind",
  );
  metrics.beforeScrape(() => ahead.set((furthestAheadMs(all) ?? Number.NaN) / 1000));
}

/** Returns, for a readiness answer, how far the process's clock is ahead of Redis' clock. */
export function clockCheck(...all: readonly Redis[]): { clock_ahead_ms: number | null } {
  return { clock_ahead_ms: furthestAheadMs(all) ?? null };
}

/**
 * Returns the time in ms by which the process's clock is ahead of the Redis clock that differs most from it. Negative if the
 * process's clock is behind.
 */
function furthestAheadMs(all: readonly Redis[]): number | undefined {
  const known = all.flatMap((redis) => redisClock(redis).aheadMs() ?? []);
  return known.sort((a, b) => Math.abs(b) - Math.abs(a))[0];
}

/** Returns the clock of a connection's Redis. Each connection has one clock, which is created on the first call. */
export function redisClock(redis: Redis): RedisClock {
  const known = clocks.get(redis);
  if (known !== undefined) return known;
  const clock = createRedisClock(redis);
  clocks.set(redis, clock);
  return clock;
}

function createRedisClock(redis: Redis): RedisClock {
  /** Redis' time when the monotonic clock was 0. */
  let origin: number | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;

  async function read(): Promise<void> {
    const sentAt = performance.now();
    askedAt = sentAt;
    const [secs, micros] = await redis.time();
    const redisMs = Number(secs) * 1000 + Number(micros) / 1000;
    // Redis read its clock between the request and the reply, so the true value is between these bounds. A known value
    // within the bounds is kept, because it may be more exact than their middle.
    const [least, most] = [redisMs - performance.now(), redisMs - sentAt];
    if (origin === undefined || origin < least || origin > most) origin = (least + most) / 2;
  }

  function readAgain(): void {
    if (redis.status === "ready") read().catch(() => {});
  }

  function known(): number | undefined {
    const now = performance.now();
    if (now - askedAt >= READ_EVERY_MS) readAgain();
    return origin === undefined ? undefined : Math.floor(origin + now);
  }

  redis.on("ready", readAgain);
  readAgain();
  return {
    now: () => known() ?? Date.now(),
    aheadMs() {
      const now = known();
      return now === undefined ? undefined : Date.now() - now;
    },
    read,
  };
}
