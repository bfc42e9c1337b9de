import { callbacksLua } from "../queue/scripts.ts";
import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import { RESULT_LIMITS, type ResultLimits, tellChange } from "../results/keep-result.ts";
import { encodeResult, type StoredResult } from "../results/result.ts";
import { CHANGE, CLOSED } from "../results/store.ts";

/** What a runner may deliver. */
export type Delivery = StoredResult & { by: "delivery" };

/** What became of a delivery. */
type Delivered =
  | "stored"
  /** The same was delivered before. */
  | "same"
  /** Something else was delivered before; that stays, unless it was a failure and this is an answer. */
  | "another"
  /** The call was discarded or forgotten, is up for refund, or refunded: it takes no result. */
  | "too late";

/**
 * KEYS record, result, payment. ARGV those of CHANGE, result. Answers a `Delivered`. A runner that runs a failed call again delivers
 * its answer in place of the failure, and a late repeat of the failure changes nothing. The time of a delivery, which comes second in its
 * text, is not part of what is compared. That the job ran for sure matters to a refund, which knows a call without that field as one
 * that nobody watched. What expires lives at least as long as the result.
 *
 * A call whose result was awaited has ended by it, and its callback is queued. One whose runner has not even answered yet ends with that
 * answer (scripts.ts).
 */
const deliverLua = () => `${CHANGE}
${CLOSED} return 'too late' end
local value = ARGV[5]
local as, before = deliveredAs(value), deliveredAs(headOf(id))
if (resultRank[before or rs] or 0) >= resultRank[as] then
  -- It is kept no more, so nobody can tell whether this is the same.
  if not before then return 'same' end
  local function timeless(text) return (string.gsub(text, '"at":%d+', '', 1)) end
  return timeless(redis.call('GET', KEYS[2])) == timeless(value) and 'same' or 'another'
end
dropResult(id .. ':progress')
local known = moveResult(id, rs, as, value)
${tellChange("id")}
if not st then return 'stored' end
redis.call('HSET', KEYS[1], 'rs', known)
if redis.call('HEXISTS', KEYS[1], 'unsure') == 1 then redis.call('HSET', KEYS[1], 'unsure', 1) end
for _, key in ipairs({KEYS[1], KEYS[3]}) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, outlasts(left)) end
end
local prepared = redis.call('HGET', KEYS[1], 'cb')
if prepared then${callbacksLua()}
  queueCallback(callbackOf(cjson.decode(prepared), known == 'failed' and 'call.failed' or 'call.completed'))
  if known == 'delivered' then redis.call('HDEL', KEYS[1], 'cb') end
end
return 'stored'`;

export type DeliverResult = (id: string, result: Delivery) => Promise<Delivered>;

/**
 * Stores what a runner delivers, or says why not. Of a longer body than may be kept stays only that it was too long. Nothing is retried
 * here. Throws `record.newer`.
 */
export function createDeliverResult(
  { redis, keys, prefix }: Partition,
  { resultMs, resultBytesMax, bytesMax }: ResultLimits = RESULT_LIMITS,
): DeliverResult {
  const deliver = script(redis, deliverLua());
  return async (id, result) => {
    const touched = [keys.record(id), keys.result(id), keys.payment(id)];
    const value = encodeResult(shortened(result, resultBytesMax));
    return (await deliver(touched, [prefix, id, resultMs, bytesMax, value])) as Delivered;
  };
}

function shortened(result: Delivery, bytesMax: number): StoredResult {
  if (result.kind !== "answer" || result.body.length <= bytesMax) return result;
  const { body, ...told } = result;
  return { ...told, kind: "too_long" };
}
