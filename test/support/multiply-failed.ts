import type { QueueName } from "../../shared/queue/queue-name.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { script } from "../../shared/redis/script.ts";

/**
 * Copies everything that Redis holds of a failed call, each time under another id: in the call itself, its record and the index
 * of the failed calls. KEYS registry. ARGV prefix, queue, id, the queue of the copies, the number of the first, how many, the
 * ms between two failures.
 */
const MULTIPLY = `
local prefix, from, id, to = ARGV[1] .. ':', ARGV[1] .. ':' .. ARGV[2] .. ':', ARGV[3], ARGV[1] .. ':' .. ARGV[4] .. ':'
local failedAt = tonumber(redis.call('ZSCORE', from .. 'failed', id))
local job, record = redis.call('HGETALL', from .. id), redis.call('HGETALL', prefix .. 'call:' .. id)
-- Plain, since a pattern takes a second for a large body.
local function renamed(text, other)
  local parts, at = {}, 1
  for _ = 1, math.huge do
    local first, last = string.find(text, id, at, true)
    if not first then break end
    parts[#parts + 1], at = string.sub(text, at, first - 1) .. other, last + 1
  end
  return table.concat(parts) .. string.sub(text, at)
end
local function copy(fields, key, other)
  if #fields == 0 then return end
  local copied = {}
  for i, field in ipairs(fields) do copied[i] = renamed(field, other) end
  redis.call('HSET', key, unpack(copied))
end
redis.call('SADD', KEYS[1], ARGV[4])
for n = tonumber(ARGV[5]), ARGV[5] + ARGV[6] - 1 do
  local other = string.format('c_%032x', n)
  local at = string.format('%.0f', failedAt + n * ARGV[7])
  copy(job, to .. other, other)
  redis.call('HSET', to .. other, 'finishedOn', at)
  copy(record, prefix .. 'call:' .. other, other)
  redis.call('ZADD', to .. 'failed', at, other)
end`;

const COPIES_AT_ONCE = 500;

type Wanted = {
  /** The call to be copied. */
  of: { id: string; queue: QueueName };
  copies: number;
  /** Where the copies lie, by turns. */
  queues?: readonly QueueName[];
  /** From one copy's failure to that of the next. Without it all fail in the same millisecond as the call itself. */
  everyMs?: number;
  /** For large bodies. */
  atOnce?: number;
};

/**
 * Makes many failed calls of one that a producer has failed, much faster than a producer could. They are named by their
 * numbers, 1 and up (`copyId`).
 */
export async function multiplyFailed({ redis, keys, prefix }: Partition, wanted: Wanted): Promise<void> {
  const { of, copies, queues = [of.queue], everyMs = 0, atOnce = COPIES_AT_ONCE } = wanted;
  const multiply = script(redis, MULTIPLY);
  for (let done = 0, turn = 0; done < copies; turn++) {
    const count = Math.min(atOnce, Math.ceil(copies / queues.length), copies - done);
    const to = queues[turn % queues.length] as QueueName;
    await multiply([keys.queues], [prefix, of.queue, of.id, to, done + 1, count, everyMs]);
    done += count;
  }
}

export function copyId(number: number): string {
  return `c_${number.toString(16).padStart(32, "0")}`;
}
