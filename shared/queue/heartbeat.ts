import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { toScored } from "../redis/scored.ts";
import { script } from "../redis/script.ts";
import type { Clock } from "../time/clock.ts";
import { within } from "../time/clock.ts";
import { HEARTBEAT_EVERY_MS, HEARTBEAT_FRESH_MS } from "./protocol.ts";

/*
 * Beats are told in Redis' time: the clocks of two machines need not agree.
 */
const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

const BEAT = `${NOW}
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - 86400000)`;

const BEATS = `${NOW}
return {now, redis.call('ZRANGEBYSCORE', KEYS[1], now - ARGV[1], '+inf', 'WITHSCORES')}`;

export type Heartbeat = {
  /** Whether a beat has arrived lately. */
  isFresh(): boolean;
  stop(): Promise<void>;
};

type Options = { redis: Redis; workerId: string; clock: Clock };

/**
 * Says every two seconds that this worker lives, until stopped. A connection on which a beat is not answered is taken for
 * dead and made anew: a worker waits for as long as it takes, and would wait on a silent connection for ever.
 */
export function beat({ redis, workerId, clock }: Options): Heartbeat {
  const send = script(redis, BEAT);
  let lastAt: number | undefined;
  let beating = false;
  const once = async (): Promise<void> => {
    if (beating || redis.status !== "ready") return;
    beating = true;
    const outcome = await within(HEARTBEAT_FRESH_MS, send([keys.workers], [workerId]));
    if (outcome.kind === "done") lastAt = clock();
    if (outcome.kind === "late") redis.disconnect(true);
    beating = false;
  };
  redis.on("ready", () => void once());
  void once();
  const timer = setInterval(() => void once(), HEARTBEAT_EVERY_MS);
  return {
    isFresh: () => lastAt !== undefined && clock() - lastAt < HEARTBEAT_FRESH_MS,
    stop: async () => {
      clearInterval(timer);
      if (redis.status === "ready") await redis.zrem(keys.workers, workerId).catch(() => {});
    },
  };
}

export type Beat = { id: string; ageMs: number };

/** The workers heard of lately, the oldest beat first. */
export async function lastBeats(redis: Redis): Promise<Beat[]> {
  const [now, beats] = (await script(redis, BEATS)([keys.workers], [HEARTBEAT_FRESH_MS])) as [
    number,
    string[],
  ];
  return toScored(beats).map(({ member, score }) => ({ id: member, ageMs: Math.max(0, now - score) }));
}
