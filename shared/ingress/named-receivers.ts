import { AppError } from "../platform/errors/app-error.ts";
import { callbackQueueOf } from "../queue/queue-name.ts";
import { defineScript } from "../redis/define-script.ts";
import { unlessRedis } from "../redis/failure.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { oneOf } from "../redis/reply.ts";
import admitReceiverLua from "./admit-receiver.lua";

/**
 * Limit on the callback queues of a deployment whose receivers requests have named, and only a wildcard of
 * `callback_hosts` allows.
 */
export const NAMED_QUEUES_MAX = 5000;

/**
 * Minimum time in ms for which a queue counts towards the limits after a request has named its receiver. It is long,
 * because the queue is created only when the call ends, which may be long after the request.
 */
const COUNTED_MS = 86_400_000;

const ADMIT = defineScript({
  source: admitReceiverLua,
  keys: "registry, ofOwner, ofAll",
  args: "queue, ownerMax, allMax, countedMs",
  proof: "expendable",
  reply: oneOf(0, 1, 2),
});

/**
 * Counts a receiver that a request names and only a wildcard of `callback_hosts` allows. Each such receiver costs a
 * queue, and a client could name any number of hosts below the wildcard. `owner` is the endpoint or the payer. Throws
 * `queue.overloaded` at a limit, and `queue.unavailable`.
 */
export type AdmitReceiver = (callId: string, owner: string, job: string, receiver: string) => Promise<void>;

/**
 * Creates the function that counts a named receiver in two partitions. Partition 0 counts the receivers of the whole
 * deployment. The call's own partition counts it too. The queue is in that partition, and only there can the script see
 * whether it still holds callbacks.
 */
export function createAdmitReceiver(partitions: Partitions, perOwnerMax: number): AdmitReceiver {
  const admits = partitions.map((partition) => createAdmit(partition, perOwnerMax));
  return async (callId, ...named) => {
    for (const admit of new Set([admits.control, admits.of(callId)])) await admit(...named);
  };
}

function createAdmit({ redis, keys }: Partition, perOwnerMax: number) {
  const admit = ADMIT.on(redis);
  return async (owner: string, job: string, receiver: string): Promise<void> => {
    const answer = await admit(
      { registry: keys.queues, ofOwner: keys.namedReceivers(owner), ofAll: keys.allNamedReceivers },
      {
        queue: callbackQueueOf(job, receiver),
        ownerMax: perOwnerMax,
        allMax: NAMED_QUEUES_MAX,
        countedMs: COUNTED_MS,
      },
    ).catch((error: unknown) => {
      throw unlessRedis(error);
    });
    if (answer === 0) return;
    const [who, max] = answer === 1 ? [owner, perOwnerMax] : ["requests", NAMED_QUEUES_MAX];
    throw new AppError("queue.overloaded", {
      reason: `${who} may name at most ${max} callback receivers by wildcards, and ${receiver} is one more`,
      publicDetail: "over the limit: callback receivers. Name a receiver that was named before, or none.",
      retryAfterMs: 60_000,
    });
  };
}
