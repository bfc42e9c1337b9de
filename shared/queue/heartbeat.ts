import { type Clock, within } from "../platform/time/clock.ts";
import { defineScript } from "../redis/define-script.ts";
import { toScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { integer, list, nothing, text, tuple } from "../redis/reply.ts";
import beatLua from "./beat.lua";
import beatsLua from "./beats.lua";

const HEARTBEAT_EVERY_MS = 2000;
/** A worker that was silent for three beats counts as gone. */
export const HEARTBEAT_FRESH_MS = 3 * HEARTBEAT_EVERY_MS;
/** How long a worker that stops waits to be forgotten at once, instead of by its silence. */
const FAREWELL_MS = 1000;

const BEAT = defineScript({ source: beatLua, keys: "workers", args: "workerId", reply: nothing });

const BEATS = defineScript({
  source: beatsLua,
  keys: "workers",
  args: "freshMs",
  reply: tuple(integer, list(text)),
});

type Heartbeat = {
  /** Whether Redis has answered a beat lately. */
  isFresh(): boolean;
  stop(): Promise<void>;
};

/**
 * Tells Redis every two seconds that this worker is alive, until stopped. If a beat is not answered, the connection counts
 * as dead and is opened again: a worker's commands have no timeout, and would wait on a silent connection for ever.
 */
export function beat({ redis, keys }: Partition, workerId: string, clock: Clock): Heartbeat {
  const send = BEAT.on(redis);
  let lastAt: number | undefined;
  let beating = false;
  const once = async (): Promise<void> => {
    if (beating || redis.status !== "ready") return;
    beating = true;
    const outcome = await within(HEARTBEAT_FRESH_MS, send({ workers: keys.workers }, { workerId }));
    if (outcome.kind === "done") lastAt = clock();
    if (outcome.kind === "late") redis.disconnect(true);
    beating = false;
  };
  const onReady = (): void => void once();
  redis.on("ready", onReady);
  void once();
  const timer = setInterval(() => void once(), HEARTBEAT_EVERY_MS);
  return {
    isFresh: () => lastAt !== undefined && clock() - lastAt < HEARTBEAT_FRESH_MS,
    stop: async () => {
      clearInterval(timer);
      redis.off("ready", onReady);
      // A connection that dies now would keep the command until Redis is back.
      if (redis.status === "ready") await within(FAREWELL_MS, redis.zrem(keys.workers, workerId));
    },
  };
}

export type Beat = { id: string; ageMs: number };

/** The workers whose last beat is fresh, the oldest beat first. */
export async function lastBeats({ redis, keys }: Partition): Promise<Beat[]> {
  const [now, beats] = await BEATS.on(redis)({ workers: keys.workers }, { freshMs: HEARTBEAT_FRESH_MS });
  return toScored(beats).map(({ member, score }) => ({ id: member, ageMs: Math.max(0, now - score) }));
}
