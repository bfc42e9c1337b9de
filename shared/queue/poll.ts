import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import type { QueueName } from "./queue-name.ts";
import { AWAKE } from "./scripts.ts";

/** So many queues of the registry are looked at in one poll, so that its cost does not grow with the number of jobs. */
const QUEUES_A_POLL = 50;

/** So many queues that are due are moved in one poll. */
const DUE_AT_ONCE = 500;

/**
 * KEYS wake, due, active, registry. ARGV prefix, now, cursor of the registry. Moves the queues that are due to `wake`, and sets
 * when they are due again. Then it looks at a part of the registry for what nobody was told of: a process may have died with a
 * name in its hand. Answers when the next queue is due, the queues with calls in hand, the new cursor, and empty queues.
 */
const POLL = `${AWAKE}
local prefix, now = ARGV[1], tonumber(ARGV[2])
local wake, due, inHand, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- BullMQ's score of a delayed call holds its time above 12 bits of a counter.
local past = string.format('%.0f', (now + 1) * 0x1000 - 1)

local function dueAgain(queue, q)
  local head = redis.call('ZRANGEBYSCORE', q .. 'delayed', '(' .. past, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] then redis.call('ZADD', due, math.floor(head[2] / 0x1000), queue) end
  return head[2]
end

for _, queue in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, ${DUE_AT_ONCE})) do
  if not dueAgain(queue, prefix .. ':' .. queue .. ':') then redis.call('ZREM', due, queue) end
  awake(wake, queue)
end

local found = redis.call('SSCAN', registry, ARGV[3], 'COUNT', ${QUEUES_A_POLL})
local empty = {}
for _, queue in ipairs(found[2]) do
  local q = prefix .. ':' .. queue .. ':'
  local paused = redis.call('HGET', prefix .. ':job:' .. string.match(queue, '/(.*)'), 'paused')
  local waits = redis.call('EXISTS', q .. 'wait') == 1
  if redis.call('EXISTS', q .. 'active') == 1 then redis.call('SADD', inHand, queue)
  elseif not waits and redis.call('EXISTS', q .. 'delayed', q .. 'failed') == 0 then
    local ended = redis.call('HGET', q .. 'metrics:completed', 'prevTS') or 0
    local failed = redis.call('HGET', q .. 'metrics:failed', 'prevTS') or 0
    empty[#empty + 1] = {queue, math.max(tonumber(ended), tonumber(failed))}
  end
  if not paused then
    if waits or redis.call('ZCOUNT', q .. 'delayed', '-inf', past) > 0 then awake(wake, queue)
    elseif not redis.call('ZSCORE', due, queue) then dueAgain(queue, q) end
  end
end

local head = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {head[2] or '', redis.call('SMEMBERS', inHand), found[1], empty}`;

export type Polled = {
  /** When the next queue is due, unix ms. */
  dueAt: number | undefined;
  /** The queues with calls in hand. */
  active: QueueName[];
  /** Queues without a call, by when the last call ended (unix ms; 0: unknown). */
  empty: { queue: QueueName; endedAt: number }[];
};

/** Looks for what no wake-up told of. Each call looks at another part of the registry. */
export function createPoll({ redis, keys, prefix }: Partition): (now: number) => Promise<Polled> {
  const poll = script(redis, POLL);
  let cursor = "0";
  return async (now) => {
    const places = [keys.wake, keys.due, keys.active, keys.queues];
    const [dueAt, active, next, empty] = (await poll(places, [prefix, now, cursor])) as [
      string,
      QueueName[],
      string,
      [QueueName, number][],
    ];
    cursor = next;
    return {
      dueAt: dueAt === "" ? undefined : Number(dueAt),
      active,
      empty: empty.map(([queue, endedAt]) => ({ queue, endedAt })),
    };
  };
}
