import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, NOW, script } from "../redis/script.ts";
import type { QueueName } from "./queue-name.ts";
import { AWAKE, DELAYS, PAUSED } from "./scripts.ts";

/** How many queues that are due are moved in one step. */
const DUE_AT_ONCE = 500;

/** Lua that sets when a queue is due again, if it has calls that are delayed further. */
const DUE_AGAIN = `${DELAYS}
local function dueAgain(queue, q)
  local head = redis.call('ZRANGEBYSCORE', q .. 'delayed', '(' .. past, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] then redis.call('ZADD', due, math.floor(head[2] / 0x1000), queue) end
  return head[2]
end`;

/**
 * KEYS wake, due. ARGV prefix. Moves the queues that are due to `wake`, sets when each is due again, and answers in how many ms the next
 * one is.
 */
const MOVE_DUE = `${EVEN_IF_FULL}${NOW}${AWAKE}
local prefix = ARGV[1]
local wake, due = KEYS[1], KEYS[2]
${DUE_AGAIN}
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, ${DUE_AT_ONCE})) do
  if not dueAgain(queue, prefix .. ':' .. queue .. ':') then redis.call('ZREM', due, queue) end
  awake(wake, queue)
end
local nextAt = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
return nextAt and math.max(0, nextAt - now)`;

/** How many queues of the registry one poll looks at, so that its cost does not grow with the number of jobs. */
const QUEUES_A_POLL = 50;

/**
 * KEYS wake, due, active, registry. ARGV prefix, cursor of the registry. Looks at a part of the registry for what nobody was
 * told of: a process may have died with a name in its hand. Answers the queues with calls in hand, the new cursor, and empty queues.
 */
const LOOK = `${EVEN_IF_FULL}${NOW}${AWAKE}
local prefix = ARGV[1]
local wake, due, inHand, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
${DUE_AGAIN}${PAUSED}
local found = redis.call('SSCAN', registry, ARGV[2], 'COUNT', ${QUEUES_A_POLL})
local empty = {}
for _, queue in ipairs(found[2]) do
  local q = prefix .. ':' .. queue .. ':'
  local paused = isPaused(prefix .. ':job:', queue)
  local waits = redis.call('EXISTS', q .. 'wait') == 1
  if redis.call('EXISTS', q .. 'active') == 1 then redis.call('SADD', inHand, queue)
  elseif not waits and redis.call('EXISTS', q .. 'delayed', q .. 'failed') == 0 then
    local ended = redis.call('HGET', q .. 'metrics:completed', 'prevTS') or 0
    local failed = redis.call('HGET', q .. 'metrics:failed', 'prevTS') or 0
    empty[#empty + 1] = {queue, now - math.max(tonumber(ended), tonumber(failed))}
  end
  if not paused then
    if waits or isDue(q .. 'delayed') then awake(wake, queue)
    elseif not redis.call('ZSCORE', due, queue) then dueAgain(queue, q) end
  end
end
return {redis.call('SMEMBERS', inHand), found[1], empty}`;

export type Looked = {
  /** The queues with calls in hand. */
  active: QueueName[];
  /** Queues without a call, and how long ago the last call ended; very long if that is unknown. */
  empty: { queue: QueueName; idleMs: number }[];
};

/** Finds the queues that nobody has told producers of. */
export function createPoll({ redis, keys, prefix }: Partition) {
  const moveDue = script(redis, MOVE_DUE);
  const look = script(redis, LOOK);
  let cursor = "0";
  return {
    /** Moves the queues that are due to `wake`. Resolves with in how many ms the next one is due. */
    async moveDue(): Promise<number | undefined> {
      const next = (await moveDue([keys.wake, keys.due], [prefix])) as number | null;
      return next ?? undefined;
    },

    /** Looks for what no wake-up told of; each time at another part of the registry. */
    async look(): Promise<Looked> {
      const places = [keys.wake, keys.due, keys.active, keys.queues];
      const reply = await look(places, [prefix, cursor]);
      const [active, next, empty] = reply as [QueueName[], string, [QueueName, number][]];
      cursor = next;
      return { active, empty: empty.map(([queue, idleMs]) => ({ queue, idleMs })) };
    },
  };
}
