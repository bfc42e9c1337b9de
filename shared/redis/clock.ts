import type { Redis } from "ioredis";
import type { Metrics } from "../platform/metrics/metrics.ts";
import type { Clock } from "../platform/time/clock.ts";

/** Redis' time is read again this long after the last reading, because its clock may be corrected. */
const READ_EVERY_MS = 10_000;

/**
 * Redis' clock as this process knows it: the last reading, carried on by the process's monotonic clock. So it does not follow the time of
 * the machine. It is exact to the duration of one exchange with Redis. A script that must be exact calls TIME itself (now.lua).
 */
export type RedisClock = {
  /** Unix ms by Redis' clock. Until Redis has told its time: by the process's clock. */
  readonly now: Clock;
  /** How far the process's clock is ahead of Redis', in ms; negative if it is behind. Undefined until Redis has told its time. */
  readonly aheadMs: () => number | undefined;
  /** Reads Redis' time. Rejects if Redis does not tell it. */
  readonly read: () => Promise<void>;
};

const clocks = new WeakMap<Redis, RedisClock>();

/** Shows how far a process's clock is ahead of Redis'; no number while Redis has not told its time. */
export function registerClock(metrics: Metrics, ...all: readonly Redis[]): void {
  const ahead = metrics.gauge(
    "postern_clock_ahead_seconds",
    "How far this process's clock is ahead of Redis' clock; negative if it is behind",
  );
  metrics.beforeScrape(() => ahead.set((furthestAheadMs(all) ?? Number.NaN) / 1000));
}

/** The same as one check of a readiness answer. */
export function clockCheck(...all: readonly Redis[]): { clock_ahead_ms: number | null } {
  return { clock_ahead_ms: furthestAheadMs(all) ?? null };
}

/** Of several servers the one counts whose clock differs most. */
function furthestAheadMs(all: readonly Redis[]): number | undefined {
  const known = all.flatMap((redis) => redisClock(redis).aheadMs() ?? []);
  return known.sort((a, b) => Math.abs(b) - Math.abs(a))[0];
}

/** One for each connection. */
export function redisClock(redis: Redis): RedisClock {
  const known = clocks.get(redis);
  if (known !== undefined) return known;
  const clock = createRedisClock(redis);
  clocks.set(redis, clock);
  return clock;
}

function createRedisClock(redis: Redis): RedisClock {
  /** Redis' time when the monotonic clock stood at 0. */
  let origin: number | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;

  async function read(): Promise<void> {
    const sentAt = performance.now();
    askedAt = sentAt;
    const [secs, micros] = await redis.time();
    const told = Number(secs) * 1000 + Number(micros) / 1000;
    // Redis told it at some instant of the exchange. What is known already may be nearer to that than the middle.
    const [least, most] = [told - performance.now(), told - sentAt];
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
