import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import { CALLBACKS_GATE, gateOf, type QueueName, receiverOfGate } from "./queue-name.ts";

/*
 * The registry is the set of the queues that may hold a call. The script that adds a call registers its queue (scripts.ts), and
 * the one that removes a queue finds it empty in the same step: whatever the two meet, no call lies in a queue that nobody sees.
 */

/** What a queue holds. `oldestSince` is unix ms. */
export type Depth = {
  waiting: number;
  delayed: number;
  active: number;
  failed: number;
  /** When the oldest call that waits or is delayed began to wait; undefined if there is none. Failed calls do not count. */
  oldestSince: number | undefined;
};

/** BullMQ's metrics of one kind of end. `data[0]` counts the minute before that of `prevTS`. */
export type Ended = { meta: { count: number; prevTS: number; prevCount: number }; data: number[] };

export type QueueReading = Depth & {
  queue: QueueName;
  /** All adds so far, since the queue was registered. A repeated add of the same call counts again. */
  added: number;
  completed: Ended;
  failedEnds: Ended;
};

/**
 * Lua that finds since when the oldest call of a queue has waited, '' if none waits. A call that failed once or was replayed has its
 * own entry in `since`; entries whose job is gone are removed. ARGV[1] is the prefix.
 */
export const OLDEST = `
local function oldest(queue, q)
  local since = ARGV[1] .. ':since:' .. queue
  local first = ''
  local id = redis.call('LINDEX', q .. 'wait', -1)
  if id then first = redis.call('ZSCORE', since, id) or redis.call('HGET', q .. id, 'timestamp') or '' end
  for _ = 1, 100 do
    local retried = redis.call('ZRANGE', since, 0, 0, 'WITHSCORES')
    if not retried[1] then break end
    if redis.call('EXISTS', q .. retried[1]) == 1 then
      if first == '' or tonumber(retried[2]) < tonumber(first) then first = retried[2] end
      break
    end
    redis.call('ZREM', since, retried[1])
  end
  return first
end`;

/** Lua that counts the calls of a queue by state, in the order of COUNTS. */
export const COUNT = `
local function count(q)
  return redis.call('LLEN', q .. 'wait'), redis.call('ZCARD', q .. 'delayed'), redis.call('LLEN', q .. 'active'),
    redis.call('ZCARD', q .. 'failed')
end`;

/** How many queues one script reads: strangers may name the receivers of callbacks, so there may be thousands. */
const READ_AT_ONCE = 200;

/** KEYS registry. ARGV prefix, how many minutes of metrics, then the names of queues. */
const READ = `${COUNT}
local function ended(key)
  local m = redis.call('HMGET', key, 'count', 'prevTS', 'prevCount')
  return {m[1] or '0', m[2] or '0', m[3] or '0', redis.call('LRANGE', key .. ':data', 0, ARGV[2] - 1)}
end

${OLDEST}

local rows = {}
for i = 3, #ARGV do
  local queue = ARGV[i]
  local q = ARGV[1] .. ':' .. queue .. ':'
  local row = {queue, {count(q)}, oldest(queue, q)}
  if ARGV[2] ~= '0' then
    row[4] = redis.call('GET', q .. 'id') or '0'
    row[5] = ended(q .. 'metrics:completed')
    row[6] = ended(q .. 'metrics:failed')
  end
  rows[#rows + 1] = row
end
return rows`;

/**
 * Lua with functions that find a call. `placeIn(prefix, queue, id)` answers the queue and BullMQ's state of the call there, if the queue
 * holds it, and `placeOf(registry, prefix, id)` looks for it in all queues. The prefix ends with a colon.
 */
export const PLACE_OF = `
local function placeIn(prefix, queue, id)
  local q = prefix .. queue .. ':'
  if redis.call('EXISTS', q .. id) == 0 then return nil end
  if redis.call('ZSCORE', q .. 'failed', id) then return {queue, 'failed'} end
  if redis.call('ZSCORE', q .. 'delayed', id) then return {queue, 'delayed'} end
  if redis.call('LPOS', q .. 'active', id) then return {queue, 'active'} end
  return {queue, 'waiting'}
end

local function placeOf(registry, prefix, id)
  for _, queue in ipairs(redis.call('SMEMBERS', registry)) do
    local found = placeIn(prefix, queue, id)
    if found then return found end
  end
end`;

/** KEYS registry. ARGV prefix, id, and the queue that probably holds the call. Answers the place of the call. */
const FIND = `${PLACE_OF}
local prefix = ARGV[1] .. ':'
return placeIn(prefix, ARGV[3], ARGV[2]) or placeOf(KEYS[1], prefix, ARGV[2])`;

/**
 * KEYS registry, wake, due, active, bytes. ARGV prefix, queue, and of callbacks the receiver. Answers 1 if the queue was empty and is gone.
 * With a receiver's last queue goes how long it has asked to wait.
 */
const REMOVE = `
local q = ARGV[1] .. ':' .. ARGV[2] .. ':'
local lists = {'wait', 'active', 'delayed', 'failed', 'paused', 'prioritized', 'waiting-children', 'completed'}
for _, list in ipairs(lists) do
  if redis.call('EXISTS', q .. list) == 1 then return 0 end
end
redis.call('SREM', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
redis.call('SREM', KEYS[4], ARGV[2])
redis.call('HDEL', KEYS[5], ARGV[2])
redis.call('DEL', q .. 'meta', q .. 'id', q .. 'events', q .. 'marker', q .. 'stalled', q .. 'stalled-check',
  q .. 'limiter', q .. 'pc', q .. 'metrics:completed', q .. 'metrics:completed:data', q .. 'metrics:failed',
  q .. 'metrics:failed:data', ARGV[1] .. ':since:' .. ARGV[2])
if ARGV[3] ~= '' then
  local queues = ARGV[1] .. ':receiver:' .. ARGV[3]
  redis.call('SREM', queues, ARGV[2])
  if redis.call('EXISTS', queues) == 0 then redis.call('HDEL', ARGV[1] .. ':job:${CALLBACKS_GATE}/' .. ARGV[3], 'throttled') end
end
return 1`;

/** The minutes of metrics that a reading has. */
export const METRIC_MINUTES = 5;

export function openRegistry({ redis, keys, prefix }: Partition) {
  const read = script(redis, READ);
  const find = script(redis, FIND);
  const remove = script(redis, REMOVE);
  const names = async (): Promise<QueueName[]> => (await redis.smembers(keys.queues)).sort();

  async function rowsOf(queues: readonly QueueName[], minutes: number): Promise<unknown[]> {
    const rows: unknown[] = [];
    for (let first = 0; first < queues.length; first += READ_AT_ONCE) {
      const some = queues.slice(first, first + READ_AT_ONCE);
      rows.push(...((await read([keys.queues], [prefix, minutes, ...some])) as unknown[]));
    }
    return rows;
  }

  return {
    names,

    /** What each of these queues holds, or each of all queues. The reading takes several steps, between which calls move on. */
    async depths(queues?: readonly QueueName[]): Promise<(Depth & { queue: QueueName })[]> {
      return ((await rowsOf(queues ?? (await names()), 0)) as DepthRow[]).map(toDepth);
    },

    /** What each queue holds and how quickly it moves, by name. Also in several steps. */
    async readings(): Promise<QueueReading[]> {
      return ((await rowsOf(await names(), METRIC_MINUTES)) as Row[]).map(toReading);
    },

    /**
     * The queue that holds a call, and whether it is `waiting`, `delayed`, `active` or `failed` there. It is looked for in
     * `first` before all others.
     */
    async find(
      callId: string,
      first: QueueName = "",
    ): Promise<{ queue: QueueName; state: string } | undefined> {
      const found = (await find([keys.queues], [prefix, callId, first])) as [string, string] | null;
      return found === null ? undefined : { queue: found[0], state: found[1] };
    },

    /** Forgets a queue that holds no call, not even a failed one. False if it holds one. */
    async remove(queue: QueueName): Promise<boolean> {
      const places = [keys.queues, keys.wake, keys.due, keys.active, keys.bytes];
      return (await remove(places, [prefix, queue, receiverOfGate(gateOf(queue)) ?? ""])) === 1;
    },
  };
}

type DepthRow = [queue: string, counts: [number, number, number, number], oldest: string];
type EndedRow = [count: string, prevTS: string, prevCount: string, data: string[]];
type Row = [...DepthRow, added: string, completed: EndedRow, failed: EndedRow];

function toDepth([queue, [waiting, delayed, active, failed], oldest]: DepthRow) {
  const oldestSince = oldest === "" ? undefined : Number(oldest);
  return { queue, waiting, delayed, active, failed, oldestSince };
}

function toReading([queue, counts, oldest, added, completed, failed]: Row): QueueReading {
  return {
    ...toDepth([queue, counts, oldest]),
    added: Number(added),
    completed: toEnded(completed),
    failedEnds: toEnded(failed),
  };
}

function toEnded([count, prevTS, prevCount, data]: EndedRow): Ended {
  const meta = { count: Number(count), prevTS: Number(prevTS), prevCount: Number(prevCount) };
  return { meta, data: data.map(Number) };
}

/** What several queues hold together. */
export function sumOfDepths(depths: readonly Depth[]): Depth {
  const since = depths.flatMap(({ oldestSince }) => oldestSince ?? []);
  return { ...sums(depths, COUNTS), oldestSince: since.length === 0 ? undefined : Math.min(...since) };
}

export const COUNTS = ["waiting", "delayed", "active", "failed"] as const;

export function sums<Name extends string>(rows: readonly Record<Name, number>[], names: readonly Name[]) {
  const totals = names.map((name) => [name, rows.reduce((sum, row) => sum + row[name], 0)]);
  return Object.fromEntries(totals) as Record<Name, number>;
}
