import type { Logger } from "../../../shared/platform/log/logger.ts";
import { type Backends, isGone } from "../../../shared/queue/backend.ts";
import { callFields, type QueueName } from "../../../shared/queue/queue-name.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { list, text, tuple } from "../../../shared/redis/reply.ts";
import ownCallsLua from "./own-calls.lua";

const OWN = defineScript({
  source: ownCallsLua,
  keys: "active",
  args: "prefix, tokenPrefix",
  proof: "reads",
  reply: list(tuple(text, text)),
});

/** What a slot has in hand: a call's id, or undefined while a take may be under way. */
type InHand = string | undefined;

export type LostTakes = ReturnType<typeof createLostTakes>;

/**
 * A connection may break after Redis has taken a call for this worker and before the worker knows of it: the command is sent again,
 * and finds something else. Such a call has a lock that nobody renews, and would wait, and keep a place of its job, until that
 * has run out. So after each new connection the worker gives back what is locked for it and is in none of its slots.
 */
export function createLostTakes(
  { redis, keys }: Partition,
  { backendOf, tokenPrefix, log }: { backendOf: Backends; tokenPrefix: string; log: Logger },
) {
  const own = OWN.on(redis);
  const slots = new Map<string, InHand>();
  let isDue = false;
  const onReady = (): void => {
    isDue = true;
  };
  redis.on("ready", onReady);

  async function releaseIn(queue: QueueName): Promise<void> {
    const [active, prefix] = [keys.inQueue(queue, "active"), keys.inQueue(queue, "")];
    for (const [callId, token] of await own({ active }, { prefix, tokenPrefix })) {
      const isUnknown = slots.has(token) && slots.get(token) === undefined;
      if (isUnknown) isDue = true;
      if (isUnknown || slots.get(token) === callId) continue;
      await backendOf(queue).moveJobFromActiveToWait(callId, token).catch(unlessGone);
      log.warn("call.released", callFields(callId, queue));
    }
  }

  return {
    /** What the slot with this token has in hand from now on. */
    inHand: (token: string, callId: InHand) => void slots.set(token, callId),

    /** The slot is free. */
    free: (token: string) => void slots.delete(token),

    /** A take may have failed after Redis took a call. */
    look: onReady,

    /** Gives back, after a new connection or a failed take, the calls of these queues that this worker does not know of. */
    async release(queues: readonly QueueName[]): Promise<void> {
      if (!isDue) return;
      isDue = false;
      try {
        for (const queue of queues) await releaseIn(queue);
      } catch (error) {
        isDue = true;
        throw error;
      }
    },

    stop: () => void redis.off("ready", onReady),
  };
}

function unlessGone(error: unknown): void {
  if (!isGone(error)) throw error;
}
