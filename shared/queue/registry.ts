import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, integer, list, optional, text, tuple } from "../redis/reply.ts";
import findCallLua from "./find-call.lua";
import {
  CALLBACKS_GATE,
  gateOf,
  isOfCallbacks,
  type QueueName,
  queuesOf,
  receiverOfGate,
} from "./queue-name.ts";
import readQueuesLua from "./read-queues.lua";
import removeQueueLua from "./remove-queue.lua";

/*
 * The registry is the set of the queues that may hold a call. The script that adds a call registers its queue (frame.lua), and
 * the one that removes a queue finds it empty in the same step: whatever the two meet, no call lies in a queue that nobody sees.
 */

/** What a queue holds. `oldestSince` is unix ms. */
export type Depth = {
  waiting: number;
  delayed: number;
  /** Calls that wait until their endpoint is enabled (endpoints.ts). */
  held: number;
  active: number;
  failed: number;
  /** When the oldest call that waits or is delayed began to wait; undefined if there is none. Failed calls do not count. */
  oldestSince: number | undefined;
};

/** A depth that tells waiting calls from delayed ones. Times are unix ms. */
export type QueueDepth = Depth & {
  /** Since when the oldest call that is not delayed has waited; undefined if no call waits. */
  waitingSince: number | undefined;
  /** When the last delayed call is due; undefined if none is delayed. */
  delayedUntil: number | undefined;
};

/** How many queues one script reads: strangers may name the receivers of callbacks, so there may be thousands. */
const READ_AT_ONCE = 200;

/** Name, counts in the order of COUNTS, and the times of `QueueDepth`. */
const ROW = tuple(text, tuple(integer, integer, integer, integer, integer), text, text, text);

const READ = defineScript({
  source: readQueuesLua,
  keys: "registry",
  args: "prefix, ...queues",
  proof: "expendable",
  reply: list(ROW),
});

const FIND = defineScript({
  source: findCallLua,
  keys: "registry",
  args: "prefix, id, first",
  proof: "reads",
  reply: optional(tuple(text, text)),
});

const REMOVE = defineScript({
  source: removeQueueLua,
  keys: "registry, wake, due, active, bytes",
  args: "prefix, queue, receiver",
  constants: { CALLBACKS_GATE },
  proof: "expendable",
  reply: flag,
});

/** The queues behind a gate. One that comes meanwhile is told of by its own add, or found by the next look (poll.ts). */
export async function queuesBehind({ redis, keys }: Partition, gate: string): Promise<string[]> {
  const receiver = receiverOfGate(gate);
  if (receiver !== undefined) return redis.smembers(keys.receiver(receiver));
  if (gate !== CALLBACKS_GATE) return queuesOf(gate);
  return (await redis.smembers(keys.queues)).filter(isOfCallbacks);
}

export function openRegistry({ redis, keys, prefix }: Partition) {
  const [read, find, remove] = [READ.on(redis), FIND.on(redis), REMOVE.on(redis)];
  const names = async (): Promise<QueueName[]> => (await redis.smembers(keys.queues)).sort();

  return {
    names,

    /** What each of these queues holds, or each of all queues. The reading takes several steps, between which calls move on. */
    async depths(queues?: readonly QueueName[]): Promise<(QueueDepth & { queue: QueueName })[]> {
      const all = queues ?? (await names());
      const depths: (QueueDepth & { queue: QueueName })[] = [];
      for (let first = 0; first < all.length; first += READ_AT_ONCE) {
        const some = all.slice(first, first + READ_AT_ONCE);
        depths.push(...(await read({ registry: keys.queues }, { prefix, queues: some })).map(toDepth));
      }
      return depths;
    },

    /**
     * The queue that holds a call, and whether it is `waiting`, `delayed`, `held`, `active` or `failed` there. It is looked for in
     * `first` before all others.
     */
    async find(
      callId: string,
      first: QueueName = "",
    ): Promise<{ queue: QueueName; state: string } | undefined> {
      const found = await find({ registry: keys.queues }, { prefix, id: callId, first });
      return found && { queue: found[0], state: found[1] };
    },

    /** Forgets a queue that holds no call, not even a failed one. False if it holds one. */
    async remove(queue: QueueName): Promise<boolean> {
      const { queues: registry, wake, due, active, bytes } = keys;
      const receiver = receiverOfGate(gateOf(queue));
      return remove({ registry, wake, due, active, bytes }, { prefix, queue, receiver });
    },
  };
}

function toDepth([queue, counts, oldest, waitingFrom, dueAt]: ReturnType<typeof ROW>) {
  const [waiting, delayed, held, active, failed] = counts;
  const time = (text: string) => (text === "" ? undefined : Number(text));
  const times = { oldestSince: time(oldest), waitingSince: time(waitingFrom), delayedUntil: time(dueAt) };
  return { queue, waiting, delayed, held, active, failed, ...times };
}

/** What several queues hold together. */
export function sumOfDepths(depths: readonly QueueDepth[]): QueueDepth {
  const among = (
    name: "oldestSince" | "waitingSince" | "delayedUntil",
    choose: (...times: number[]) => number,
  ) => {
    const times = depths.flatMap((depth) => depth[name] ?? []);
    return times.length === 0 ? undefined : choose(...times);
  };
  return {
    ...sums(depths, COUNTS),
    oldestSince: among("oldestSince", Math.min),
    waitingSince: among("waitingSince", Math.min),
    delayedUntil: among("delayedUntil", Math.max),
  };
}

export const COUNTS = ["waiting", "delayed", "held", "active", "failed"] as const;

export function sums<Name extends string>(rows: readonly Record<Name, number>[], names: readonly Name[]) {
  const totals = names.map((name) => [name, rows.reduce((sum, row) => sum + row[name], 0)]);
  return Object.fromEntries(totals) as Record<Name, number>;
}
