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
 * The registry is the set of queues that may hold a call. The script that adds a call also registers its queue (frame.lua).
 * The script that removes a queue checks in the same step that the queue is empty. So no queue with a call is ever missing
 * from the registry.
 */

/** Numbers of calls in a queue. `oldestSince` is unix ms. */
export type Depth = {
  waiting: number;
  delayed: number;
  /** Calls that wait until their endpoint is enabled (endpoints.ts). */
  held: number;
  active: number;
  failed: number;
  /** When the oldest waiting or delayed call began to wait; undefined without such a call. Failed calls do not count. */
  oldestSince: number | undefined;
};

/** A depth with separate times for waiting and delayed calls, in unix ms. */
export type QueueDepth = Depth & {
  /** When the oldest call that is not delayed began to wait; undefined if no call waits. */
  waitingSince: number | undefined;
  /** When the last delayed call is due; undefined if no call is delayed. */
  delayedUntil: number | undefined;
};

/**
 * Number of queues that one script reads. A partition may have thousands of queues, because clients may name many receivers
 * of callbacks, and each receiver has queues of its own.
 */
const READ_AT_ONCE = 200;

/** Row of a queue: its name, its counts in the order of COUNTS, and the three times of its `QueueDepth`, in that order. */
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

/**
 * Returns the queues of a gate (frame.lua). The result may miss a queue that is registered at the same time. This does no
 * harm: the script that adds the first call to that queue, or the next scan of the registry (poll.ts), notifies the
 * producers.
 */
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

    /**
     * Counts the calls of each of these queues, or of all queues. The counts come from several scripts, and calls may move
     * between them.
     */
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
     * Finds the queue that holds a call, and the call's state there: `waiting`, `delayed`, `held`, `active` or `failed`.
     * Searches the queue `first` before all others.
     */
    async find(
      callId: string,
      first: QueueName = "",
    ): Promise<{ queue: QueueName; state: string } | undefined> {
      const found = await find({ registry: keys.queues }, { prefix, id: callId, first });
      return found && { queue: found[0], state: found[1] };
    },

    /** Removes a queue without calls from the registry. Returns false if the queue holds a call, even a failed one. */
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

/** Adds up the depths of several queues. */
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
