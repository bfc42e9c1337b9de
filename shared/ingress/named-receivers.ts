import { AppError } from "../platform/errors/app-error.ts";
import { callbackQueueOf } from "../queue/queue-name.ts";
import { defineScript } from "../redis/define-script.ts";
import { unlessRedis } from "../redis/failure.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { oneOf } from "../redis/reply.ts";
import admitReceiverLua from "./admit-receiver.lua";

/** Queues of callbacks that wildcards of `callback_hosts` may make in a deployment, whoever names their receivers. */
export const NAMED_QUEUES_MAX = 5000;

/** A queue counts at least for this long after a request has named its receiver: the call may still wait. */
const COUNTED_MS = 86_400_000;

const ADMIT = defineScript({
  source: admitReceiverLua,
  keys: "registry, ofParty, ofAll",
  args: "queue, partyMax, allMax, countedMs",
  proof: "expendable",
  reply: oneOf(0, 1, 2),
});

/**
 * Counts the receiver that a request names by a wildcard of `callback_hosts`: each costs a queue, and there is no end of host names.
 * `party` is the endpoint or the payer. Throws `queue.overloaded` if it is one too many, and `queue.unavailable`.
 */
export type AdmitReceiver = (callId: string, party: string, job: string, receiver: string) => Promise<void>;

/** Partition 0 counts those that are named in all of them. Only the call's own partition knows whether the queue is still there. */
export function createAdmitReceiver(partitions: Partitions, perParty: number): AdmitReceiver {
  const admits = partitions.map((partition) => createAdmit(partition, perParty));
  return async (callId, ...named) => {
    for (const admit of new Set([admits.control, admits.of(callId)])) await admit(...named);
  };
}

function createAdmit({ redis, keys }: Partition, perParty: number) {
  const admit = ADMIT.on(redis);
  return async (party: string, job: string, receiver: string): Promise<void> => {
    const answer = await admit(
      { registry: keys.queues, ofParty: keys.namedReceivers(party), ofAll: keys.allNamedReceivers },
      {
        queue: callbackQueueOf(job, receiver),
        partyMax: perParty,
        allMax: NAMED_QUEUES_MAX,
        countedMs: COUNTED_MS,
      },
    ).catch((error: unknown) => {
      throw unlessRedis(error);
    });
    if (answer === 0) return;
    const [who, max] = answer === 1 ? [party, perParty] : ["requests", NAMED_QUEUES_MAX];
    throw new AppError("queue.overloaded", {
      reason: `${who} may name at most ${max} callback receivers by wildcards, and ${receiver} is one more`,
      publicDetail: "over the limit: callback receivers. Name a receiver that was named before, or none.",
      retryAfterMs: 60_000,
    });
  };
}
