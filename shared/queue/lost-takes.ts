import type { Logger } from "../log/logger.ts";
import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import { type Backends, isGone } from "./backend.ts";
import { callFields, type QueueName } from "./queue-name.ts";

/** KEYS active. ARGV what the keys of the queue begin with, what the worker's tokens begin with. Answers id and token of each call. */
const OWN = `
local own = {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local token = redis.call('GET', ARGV[1] .. id .. ':lock')
  if token and string.sub(token, 1, #ARGV[2]) == ARGV[2] then own[#own + 1] = {id, token} end
end
return own`;

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
  const own = script(redis, OWN);
  const slots = new Map<string, InHand>();
  let isDue = false;
  const onReady = (): void => {
    isDue = true;
  };
  redis.on("ready", onReady);

  async function giveBackIn(queue: QueueName): Promise<void> {
    const found = await own([keys.inQueue(queue, "active")], [keys.inQueue(queue, ""), tokenPrefix]);
    for (const [callId, token] of found as [string, string][]) {
      const isUnknown = slots.has(token) && slots.get(token) === undefined;
      if (isUnknown) isDue = true;
      if (isUnknown || slots.get(token) === callId) continue;
      await backendOf(queue).moveJobFromActiveToWait(callId, token).catch(unlessGone);
      log.warn("call.given_back", callFields(callId, queue));
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
    async giveBack(queues: readonly QueueName[]): Promise<void> {
      if (!isDue) return;
      isDue = false;
      for (const queue of queues) await giveBackIn(queue);
    },

    stop: () => void redis.off("ready", onReady),
  };
}

function unlessGone(error: unknown): void {
  if (!isGone(error)) throw error;
}
