import { parseJson } from "../platform/text/parse-json.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, list, numeric, oneOf, text, tuple } from "../redis/reply.ts";
import { errorOf } from "./call-log.ts";
import { SCANNED_AT_ONCE } from "./failed.ts";
import { type FailedHead, headOfStored } from "./failed-head.ts";
import listQueuedLua from "./list-queued.lua";
import { jobOf, originOf, type QueueName } from "./queue-name.ts";
import readHeadsLua from "./read-heads.lua";
import { openRegistry } from "./registry.ts";

export const QUEUED_STATES = ["waiting", "delayed", "held", "active"] as const;
export type QueuedState = (typeof QUEUED_STATES)[number];

/** A call that is in its queue and has not failed. */
export type QueuedCall = {
  id: string;
  queue: QueueName;
  state: QueuedState;
  /** When the call was last queued, replayed or taken; unix ms. */
  updatedAt: number;
  /** Attempts since the call was queued or last replayed. */
  attempts: number;
  head: FailedHead;
  /** The code and reason of the last failed attempt, as `code: reason`. */
  error: string | undefined;
};

export type QueuedFilter = {
  origin?: string | undefined;
  /** `<service id>/<job index>` */
  job?: string | undefined;
  state?: QueuedState | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/**
 * Maximum number of calls that are read of each queue and state. If there are more, the newest are read, or of delayed calls
 * those that are due last.
 */
const READ_PER_STATE_MAX = 1000;
const HEADS_AT_ONCE = 50;
/** Maximum stored size, in bytes, of a call whose head is read. A larger call is listed with an empty head. */
const READ_MAX = 1024 * 1024;

const LISTED = tuple(text, oneOf(...QUEUED_STATES), numeric, numeric, numeric);

const LIST = defineScript({
  source: listQueuedLua,
  keys: "",
  args: "prefix, queue, count",
  proof: "reads",
  reply: tuple(flag, list(LISTED)),
});

const HEADS = defineScript({
  source: readHeadsLua,
  keys: "...calls(call, attempts)",
  constants: { READ_MAX, SCANNED_AT_ONCE },
  proof: "reads",
  reply: list(tuple(text, text)),
});

type Listed = Omit<QueuedCall, "head" | "error">;

/** Lists calls that are in their queues and have not failed, newest first, up to a limit for each queue. It changes nothing. */
export function createQueuedCalls(partition: Partition) {
  const { redis, keys, prefix } = partition;
  const registry = openRegistry(partition);
  const [listIn, readHeads] = [LIST.on(redis), HEADS.on(redis)];

  async function listed(queue: QueueName): Promise<{ isCut: boolean; calls: Listed[] }> {
    const [isCut, rows] = await listIn({}, { prefix, queue, count: READ_PER_STATE_MAX });
    return {
      isCut,
      calls: rows.map(([id, state, attempts, ...times]) => ({
        id,
        queue,
        state,
        updatedAt: Math.max(...times),
        attempts,
      })),
    };
  }

  /**
   * Reads the heads of these calls in order. One script reads a limited number of bytes, so the result may have only the
   * first calls, but at least one.
   */
  async function withHeads(calls: readonly Listed[]): Promise<QueuedCall[]> {
    const read = await readHeads({
      calls: calls.map(({ queue, id }) => ({ call: keys.inQueue(queue, id), attempts: keys.attempts(id) })),
    });
    return read.flatMap(([stored, failure], i) => {
      const call = calls[i];
      return call === undefined
        ? []
        : [{ ...call, head: headOfStored(parseJson(stored)), error: errorOf(failure) }];
    });
  }

  async function queuesOf({ origin, job }: QueuedFilter): Promise<QueueName[]> {
    return (await registry.names()).filter(
      (queue) =>
        (origin === undefined || originOf(queue) === origin) && (job === undefined || jobOf(queue) === job),
    );
  }

  return {
    /**
     * Yields the matching calls, newest first. Calls `onCut` if a queue holds more calls of a state than are read. After an
     * abort, calls may be missing.
     */
    async *matching(
      filter: QueuedFilter,
      onCut: () => void,
      signal?: AbortSignal,
    ): AsyncGenerator<QueuedCall> {
      const calls: Listed[] = [];
      for (const queue of await queuesOf(filter)) {
        if (signal?.aborted) return;
        const found = await listed(queue);
        if (found.isCut) onCut();
        calls.push(...found.calls.filter((call) => matches(call, filter)));
      }
      calls.sort((a, b) => b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1));
      for (let read = 0; read < calls.length && !signal?.aborted; ) {
        const found = await withHeads(calls.slice(read, read + HEADS_AT_ONCE));
        read += found.length;
        yield* found;
      }
    },

    /** Finds one call. Undefined if no queue has the call, or if it has failed. */
    async find(id: string): Promise<QueuedCall | undefined> {
      const place = await registry.find(id);
      if (place === undefined || place.state === "failed") return undefined;
      const { queue } = place;
      const fields = ["atm", "timestamp", "processedOn"] as const;
      const [attempts, ...times] = await redis.hmget(keys.inQueue(queue, id), ...fields);
      const updatedAt = Math.max(...times.map(Number));
      const state = place.state as QueuedState;
      const listedCall = { id, queue, state, updatedAt, attempts: Number(attempts ?? 0) };
      return (await withHeads([listedCall]))[0];
    },
  };
}

function matches({ state, updatedAt }: Listed, filter: QueuedFilter): boolean {
  const { since = 0, until = Number.POSITIVE_INFINITY } = filter;
  return (filter.state === undefined || state === filter.state) && updatedAt >= since && updatedAt <= until;
}
