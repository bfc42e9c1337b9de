import { AppError } from "../errors/app-error.ts";
import { callbackQueueOf } from "../queue/queue-name.ts";
import { unlessRedis } from "../redis/failure.ts";
import type { Partition } from "../redis/partition.ts";
import { NOW, script } from "../redis/script.ts";

/** Queues of callbacks that wildcards of `callback_hosts` may make in a deployment, whoever names their receivers. */
export const NAMED_QUEUES_MAX = 5000;

/** A queue counts at least for this long after a request has named its receiver: the call may still wait. */
const COUNTED_MS = 86_400_000;
/** Names that one request looks at to find some that no longer count. */
const LOOKED_AT = 50;

/**
 * KEYS registry, the party's queues, the queues of all parties. ARGV queue, the party's limit, the limit of all, ms. Answers 0, or which
 * limit is reached. A queue counts as long as it holds callbacks, failed ones included: it is then among the newest again.
 */
const ADMIT = `${NOW}
local counted = now - ARGV[4]
local function takes(key, max)
  if redis.call('ZSCORE', key, ARGV[1]) or redis.call('ZCARD', key) < max then return true end
  for _, queue in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', counted, 'LIMIT', 0, ${LOOKED_AT})) do
    if redis.call('SISMEMBER', KEYS[1], queue) == 1 then redis.call('ZADD', key, now, queue)
    else redis.call('ZREM', key, queue) end
  end
  return redis.call('ZCARD', key) < max
end
if not takes(KEYS[2], tonumber(ARGV[2])) then return 1 end
if not takes(KEYS[3], tonumber(ARGV[3])) then return 2 end
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[3], now, ARGV[1])
return 0`;

/**
 * Counts the receiver that a request names by a wildcard of `callback_hosts`: each costs a queue, and there is no end of host names.
 * `party` is the endpoint or the payer. Throws `queue.overloaded` if it is one too many, and `queue.unavailable`.
 */
export type AdmitReceiver = (party: string, job: string, receiver: string) => Promise<void>;

export function createAdmitReceiver({ redis, keys }: Partition, perParty: number): AdmitReceiver {
  const admit = script(redis, ADMIT);
  return async (party, job, receiver) => {
    const answer = await admit(
      [keys.queues, keys.namedReceivers(party), keys.allNamedReceivers],
      [callbackQueueOf(job, receiver), perParty, NAMED_QUEUES_MAX, COUNTED_MS],
    ).catch((error: unknown) => {
      throw unlessRedis(error);
    });
    if (answer === 0) return;
    const [who, max] = answer === 1 ? [party, perParty] : ["requests", NAMED_QUEUES_MAX];
    throw new AppError("queue.overloaded", {
      reason: `${who} may name ${max} receivers of callbacks by wildcards, and ${receiver} is one more`,
      publicDetail: "over its limit: receivers of callbacks. Name one that was named before, or none.",
      retryAfterMs: 60_000,
    });
  };
}
