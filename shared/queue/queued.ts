import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import { BODILESS, SCANNED_AT_ONCE } from "./failed.ts";
import { type FailedHead, headOfStored } from "./failed-head.ts";
import { jobOf, originOf, type QueueName } from "./queue-name.ts";
import { openRegistry } from "./registry.ts";

export const QUEUED_STATES = ["waiting", "delayed", "active"] as const;
export type QueuedState = (typeof QUEUED_STATES)[number];

/** A call in its queue that has not failed. */
export type QueuedCall = {
  id: string;
  queue: QueueName;
  state: QueuedState;
  /** When it was added, unix ms. */
  queuedAt: number;
  /** Attempts spent since it was queued or last replayed. */
  attempts: number;
  head: FailedHead;
};

export type QueuedFilter = {
  origin?: string | undefined;
  /** `<service id>/<job index>` */
  job?: string | undefined;
  state?: QueuedState | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** So many calls of each state are looked at in a queue: those that were added last, or that are due last. */
const LOOKED_AT = 1000;
const HEADS_AT_ONCE = 50;
/** What is beside the body of a larger call is not read. */
const READ_MAX = 1024 * 1024;

/** ARGV prefix, queue, how many. Answers whether there are more, and for each call id, state, time and attempts. */
const LIST = `
local q, count = ARGV[1] .. ':' .. ARGV[2] .. ':', tonumber(ARGV[3])
local rows, isCut = {}, 0
local function add(state, ids)
  if #ids > count then isCut = 1 end
  for i = 1, math.min(#ids, count) do
    local job = redis.call('HMGET', q .. ids[i], 'timestamp', 'atm')
    if job[1] then rows[#rows + 1] = {ids[i], state, job[1], job[2] or '0'} end
  end
end
add('active', redis.call('LRANGE', q .. 'active', 0, count))
add('waiting', redis.call('LRANGE', q .. 'wait', 0, count))
add('delayed', redis.call('ZREVRANGE', q .. 'delayed', 0, count))
return {isCut, rows}`;

/** KEYS calls. Answers each without its body, of the first of them: of as many as may be looked through at once, and of one at least. */
const HEADS = `${BODILESS}
local heads, budget = {}, ${SCANNED_AT_ONCE}
for i, key in ipairs(KEYS) do
  local bytes = redis.call('HSTRLEN', key, 'data')
  if bytes <= ${READ_MAX} then budget = budget - bytes end
  if budget < 0 and i > 1 then break end
  heads[i] = bytes > ${READ_MAX} and '' or bodiless(key, 'data')
end
return heads`;

type Row = [id: string, state: QueuedState, timestamp: string, attempts: string];
type Listed = Omit<QueuedCall, "head">;

/** Reads the calls that are in their queues and have not failed, newest first: the newest of each queue. It changes nothing. */
export function createQueuedCalls(partition: Partition) {
  const { redis, keys, prefix } = partition;
  const registry = openRegistry(partition);
  const list = script(redis, LIST);
  const readHeads = script(redis, HEADS);

  async function listed(queue: QueueName): Promise<{ isCut: boolean; calls: Listed[] }> {
    const [isCut, rows] = (await list([], [prefix, queue, LOOKED_AT])) as [number, Row[]];
    const calls = rows.map(([id, state, timestamp, attempts]) => ({
      ...{ id, queue, state },
      queuedAt: Number(timestamp),
      attempts: Number(attempts),
    }));
    return { isCut: isCut === 1, calls };
  }

  /** The first of them, one at least. */
  async function withHeads(calls: readonly Listed[]): Promise<QueuedCall[]> {
    const heads = (await readHeads(
      calls.map(({ queue, id }) => keys.inQueue(queue, id)),
      [],
    )) as string[];
    return calls
      .slice(0, heads.length)
      .map((call, i) => ({ ...call, head: headOfStored(parsed(heads[i] ?? "")) }));
  }

  async function queuesOf({ origin, job }: QueuedFilter): Promise<QueueName[]> {
    return (await registry.names()).filter(
      (queue) =>
        (origin === undefined || originOf(queue) === origin) && (job === undefined || jobOf(queue) === job),
    );
  }

  return {
    /** `onCut` is called if a queue holds more than was looked at. What is aborted may be but a part. */
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
      calls.sort((a, b) => b.queuedAt - a.queuedAt || (a.id < b.id ? 1 : -1));
      for (let read = 0; read < calls.length && !signal?.aborted; ) {
        const found = await withHeads(calls.slice(read, read + HEADS_AT_ONCE));
        read += found.length;
        yield* found;
      }
    },

    /** Undefined if the call is in no queue, or failed there. */
    async find(id: string): Promise<QueuedCall | undefined> {
      const place = await registry.find(id);
      if (place === undefined || place.state === "failed") return undefined;
      const { queue } = place;
      const [timestamp, attempts] = await redis.hmget(keys.inQueue(queue, id), "timestamp", "atm");
      const state = place.state as QueuedState;
      const listedCall = { id, queue, state, queuedAt: Number(timestamp), attempts: Number(attempts ?? 0) };
      return (await withHeads([listedCall]))[0];
    },
  };
}

function matches({ state, queuedAt }: Listed, filter: QueuedFilter): boolean {
  const { since = 0, until = Number.POSITIVE_INFINITY } = filter;
  return (filter.state === undefined || state === filter.state) && queuedAt >= since && queuedAt <= until;
}

/** Undefined if it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
