import type { Origin } from "../job-call/origin.ts";
import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, script } from "../redis/script.ts";
import { CALLBACKS_GATE } from "./queue-name.ts";
import { COUNT, type Depth, OLDEST } from "./registry.ts";

/** The calls of one origin, for whoever may add more. */
export type OriginDepth = Depth & {
  /** What the calls of all origins take as stored, failed ones included. */
  bytes: number;
  /**
   * By job: since when (unix ms) the oldest call has waited that was never tried. A job that an operator has paused is not here, and
   * neither are calls that wait for a retry: no runner would end their wait any sooner.
   */
  untriedSince: ReadonlyMap<string, number>;
  callbacks: CallbackBytes;
};

/** What the callbacks of all jobs take as stored, failed ones included. */
type CallbackBytes = {
  bytes: number;
  /** Only the receivers that have more than a few callbacks. */
  byReceiver: ReadonlyMap<string, number>;
};

/** A receiver's callbacks below this are not told of: a dozen or so. */
const FEW_BYTES = 16_384;

/** How long all gateways are told the same, so that looking costs Redis the same with one gateway and with fifty. */
const KEPT_MS = 500;

/** Calls at the head of a queue that may be looked at to find one that was never tried. */
const LOOKED_AT = 10;

/** KEYS registry, what is kept, bytes. ARGV prefix, origin. Answers JSON. */
const READ = `${EVEN_IF_FULL}
local kept = redis.call('GET', KEYS[2])
if kept then return kept end
${OLDEST}${COUNT}

local function untried(queue, q)
  for i = 1, ${LOOKED_AT} do
    local id = redis.call('LINDEX', q .. 'wait', -i)
    if not id then return nil end
    if not redis.call('ZSCORE', ARGV[1] .. ':since:' .. queue, id) then
      return tonumber(redis.call('HGET', q .. id, 'timestamp'))
    end
  end
end

local found = {waiting = 0, delayed = 0, active = 0, failed = 0, bytes = 0, untried = {}, callbacks = 0, receivers = {}}
local sizes, receivers = redis.call('HGETALL', KEYS[3]), {}
for i = 1, #sizes, 2 do
  local bytes, receiver = tonumber(sizes[i + 1]), string.match(sizes[i], '^${CALLBACKS_GATE}/[^/]*/[^/]*/(.*)')
  found.bytes = found.bytes + bytes
  if receiver then
    found.callbacks = found.callbacks + bytes
    receivers[receiver] = (receivers[receiver] or 0) + bytes
  end
end
for receiver, bytes in pairs(receivers) do
  if bytes > ${FEW_BYTES} then found.receivers[receiver] = bytes end
end
local prefix = ARGV[2] .. '/'
for _, queue in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if string.sub(queue, 1, #prefix) == prefix then
    local job = string.sub(queue, #prefix + 1)
    local q = ARGV[1] .. ':' .. queue .. ':'
    local waiting, delayed, active, failed = count(q)
    found.waiting, found.delayed = found.waiting + waiting, found.delayed + delayed
    found.active, found.failed = found.active + active, found.failed + failed
    local first = tonumber(oldest(queue, q))
    if first and first < (found.oldestSince or math.huge) then found.oldestSince = first end
    if redis.call('HEXISTS', ARGV[1] .. ':job:' .. job, 'paused') == 0 then found.untried[job] = untried(queue, q) end
  end
end
local json = cjson.encode(found)
redis.call('SET', KEYS[2], json, 'PX', ${KEPT_MS})
return json`;

type Found = Omit<OriginDepth, "untriedSince" | "callbacks"> & {
  untried: Record<string, number>;
  callbacks: number;
  receivers: Record<string, number>;
};

/** Reads what all queues of one origin hold together. It may be half a second old. */
export function createReadDepth(
  { redis, keys, prefix }: Partition,
  origin: Origin,
): () => Promise<OriginDepth> {
  const read = script(redis, READ);
  return async () => {
    const reply = await read([keys.queues, keys.depth(origin), keys.bytes], [prefix, origin]);
    const { untried, oldestSince, callbacks, receivers, ...counts } = JSON.parse(String(reply)) as Found;
    return {
      ...{ ...counts, oldestSince, untriedSince: new Map(Object.entries(untried)) },
      callbacks: { bytes: callbacks, byReceiver: new Map(Object.entries(receivers)) },
    };
  };
}
