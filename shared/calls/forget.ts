import { auditWords, createAudit, logAudited } from "../audit/audit.ts";
import { createForgetInHistory } from "../call-history/keep.ts";
import { AppError } from "../errors/app-error.ts";
import { callbackId, ENDINGS } from "../job-call/callback.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import type { OperateDeps } from "../queue/operate.ts";
import placeOfLua from "../queue/place-of.lua";
import { EVEN_IF_FULL, script } from "../redis/script.ts";
import { PLAIN_RECORD, refuseNewer, unlessNewer } from "../redis/version.ts";
import { DROP_RESULT, tellChange } from "../results/keep-result.ts";

/**
 * How long the record of a forgotten call that nobody paid for lives at least: longer than a result may come late. That of a paid call
 * lives with its payment.
 */
const FORGOTTEN_KEEP_MS = 7 * 86_400_000;

/** Lua that takes a failed call off its queue, and answers whether it was there; and that ends the callback of one. */
const DROP_FAILED = `
local function dropFailed(queue, id)
  if redis.call('ZREM', prefix .. queue .. ':failed', id) == 0 then return false end
  local own = prefix .. queue .. ':' .. id
  redis.call('HINCRBY', bytes, queue, -redis.call('HSTRLEN', own, 'data'))
  redis.call('DEL', own)
  return true
end

-- A callback that waits is told to nobody any more: the producer that takes it finds that it has ended, and reads nothing of it.
local function dropCallback(own, tries, id)
  redis.call('DEL', tries)
  local place = placeOf(registry, prefix, id)
  if not place then return end
  local key = prefix .. place[1] .. ':' .. id
  if not dropFailed(place[1], id) then
    redis.call('HINCRBY', bytes, place[1], -redis.call('HSTRLEN', key, 'data'))
    redis.call('HSET', key, 'data', '')
    redis.call('HDEL', key, 'failedReason', 'stacktrace')
  end
  redis.call('HSET', own, 'v', ${PLAIN_RECORD}, 'st', 'DISCARDED', 'at', now, 'fg', now)
  redis.call('PEXPIRE', own, keepMs)
end`;

/**
 * KEYS record, payment, attempts, result, progress, registry, bytes, audit; record and attempts of each callback that there may be. ARGV
 * prefix, id, now, ms to keep the record at least, the ids of these callbacks, what XADD takes. Answers DONE; FORGOTTEN and when that was; UNDECIDED and the state; IN_HAND and where the call is; or UNKNOWN.
 *
 * What settling the payment again would need stays until the chain has shown it: the reconciler drops it then. BullMQ's own events
 * have the reasons of failed calls, and nobody reads them.
 */
const FORGET = `${EVEN_IF_FULL}${unlessNewer("record")}${refuseNewer("payment", "redis.call('HGET', KEYS[2], 'v')")}
local record, payment, attempts, result, progress, registry, bytes, audit = unpack(KEYS)
local prefix, id, now, keepMs = ARGV[1] .. ':', ARGV[2], ARGV[3], tonumber(ARGV[4])
${placeOfLua}${DROP_RESULT}${DROP_FAILED}
local st, fg, w, rt = unpack(redis.call('HMGET', record, 'st', 'fg', 'w', 'rt'))
if fg then return {'FORGOTTEN', fg} end
if st == 'SETTLING' or st == 'REVIEW' then return {'UNDECIDED', st} end
local place = placeOf(registry, prefix, id)
if place and place[2] ~= 'failed' then return {'IN_HAND', place[2]} end
if not place then
  if st == 'QUEUED' then return {'IN_HAND', 'missing'} end
  if not st and redis.call('EXISTS', attempts, result, progress) == 0 then return {'UNKNOWN'} end
else
  dropFailed(place[1], id)
end
for i = 0, ${ENDINGS.length - 1} do dropCallback(KEYS[9 + 2 * i], KEYS[10 + 2 * i], ARGV[5 + i]) end
for _, queue in ipairs(redis.call('SMEMBERS', registry)) do
  redis.call('ZREM', prefix .. 'since:' .. queue, id)
  redis.call('XTRIM', prefix .. queue .. ':events', 'MAXLEN', 0)
end
redis.call('DEL', attempts)
dropResult(id)
dropResult(id .. ':progress')

local left = redis.call('PTTL', record)
if not st then redis.call('HSET', record, 'v', ${PLAIN_RECORD}) end
if not st or st == 'FAILED' or st == 'QUEUED' then redis.call('HSET', record, 'st', 'DISCARDED', 'at', now) end
redis.call('HSET', record, 'fg', now, 'rs', 'gone')
redis.call('HDEL', record, 'fc', 'fp', 'cb')
if st ~= 'REFUND_PENDING' then
  if left < 0 then left = tonumber(w) or keepMs end
  if not rt and left < keepMs then left = keepMs end
  redis.call('PEXPIRE', record, left)
end

redis.call('HDEL', payment, 'call')
local proven, reason = unpack(redis.call('HMGET', payment, 'proven', 'reason'))
if proven == '1' or reason then redis.call('HDEL', payment, 'request') end

${tellChange("id")}
redis.call('XADD', audit, unpack(ARGV, ${5 + ENDINGS.length}))
return {'DONE'}`;

/** `before`: it had been forgotten, at that time (unix ms); nothing was done. */
export type Forgotten = { kind: "done" } | { kind: "before"; at: number };

export type Forget = (id: string, reason: string) => Promise<Forgotten>;

/**
 * Removes what Postern holds of a call's sender: its body, metadata, result, progress, what was said of its attempts, and the callback that
 * would tell of its end. What stays says that there was such a call, so that no repeat of the delivery or payment runs or charges anything. A failed call ends by it.
 *
 * It is one step, with its line in the audit, so that nothing runs between and no line is missing. The history of calls comes after it. Whatever comes late, as a 2xx, a
 * delivery or a failed attempt, finds the record's `fg` or an ended call, and writes nothing back.
 *
 * Throws `call.in_hand`, `call.undecided` and `call.unknown`.
 */
export function createForget({ partition, clock, log, by }: OperateDeps): Forget {
  const { redis, keys, prefix } = partition;
  const run = script(redis, FORGET);
  const history = createForgetInHistory(partition);
  const audit = createAudit(partition, log);

  return async function forget(id, reason) {
    const at = clock();
    const entry = { at, action: "forget", callId: id, by, selection: "by id", reason } as const;
    const own = [keys.record(id), keys.payment(id), keys.attempts(id), keys.result(id), keys.progress(id)];
    const callbacks = ENDINGS.map((ending) => callbackId(id, ending));
    const ofCallbacks = callbacks.flatMap((callback) => [keys.record(callback), keys.attempts(callback)]);
    const touched = [...own, keys.queues, keys.bytes, keys.audit, ...ofCallbacks];
    failpoint("operator.before_forgotten");
    const answer = await run(touched, [
      prefix,
      id,
      at,
      FORGOTTEN_KEEP_MS,
      ...callbacks,
      ...auditWords(entry),
    ]);
    failpoint("operator.after_forgotten");
    const [became, detail = ""] = answer as [string, string?];
    switch (became) {
      case "DONE":
        await history.forget(id);
        logAudited(log, entry);
        return { kind: "done" };
      case "FORGOTTEN":
        await history.forget(id); // whoever forgot it may have died before that
        return { kind: "before", at: Number(detail) };
      case "UNDECIDED":
        throw undecided(id, detail);
      case "IN_HAND":
        throw inHand(id, detail);
      default:
        if (await history.remove(id)) {
          await audit(entry);
          return { kind: "done" };
        }
        throw AppError.public("call.unknown", `${id}: nothing is known of such a call (any more)`);
    }
  };
}

function undecided(id: string, state: string): AppError {
  const detail =
    state === "REVIEW"
      ? `${id}: its payment is in review; decide with postern payments resolve`
      : `${id}: whether its payment happened is not known yet; postern payments resolve --dropped deletes its body now`;
  return AppError.public("call.undecided", detail, { retryAfterMs: 2000 });
}

function inHand(id: string, place: string): AppError {
  const detail =
    place === "missing"
      ? `${id}: it is to run, and its queue has lost it; a gateway adds it again`
      : `${id}: it is ${place} in its queue; a call can be forgotten once it has ended or failed`;
  return AppError.public("call.in_hand", detail, { retryAfterMs: 2000 });
}
