import type { Logger } from "../../../shared/platform/log/logger.ts";
import { type Backends, isGone } from "../../../shared/queue/backend.ts";
import { callFields, type QueueName } from "../../../shared/queue/queue-name.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { list, text, tuple } from "../../../shared/redis/reply.ts";
import type { Held } from "./hold.ts";
import ownCallsLua from "./own-calls.lua";

const OWN = defineScript({
  source: ownCallsLua,
  keys: "active",
  args: "prefix, worker",
  proof: "reads",
  reply: list(tuple(text, text, text)),
});

/**
 * State of a slot. Each change of the state creates a new object. So code that has kept the object can see by comparison
 * whether the slot has changed since.
 */
type Slot = {
  /** True from the request to take a call until its reply is handled. */
  readonly isTaking: boolean;
};

export type LostTakes = ReturnType<typeof createLostTakes>;

/**
 * Finds calls that Redis has taken for this worker, although the worker did not get them. There are two causes. The
 * connection may break before the reply to a take: the client then sends the command again, which takes another call. Or the
 * replicas do not confirm a take in time, and the worker gets an error instead of the call.
 *
 * The worker does not renew the locks of such calls. When such a lock expires, it looks as if a process had died with the
 * call. So after each new connection or failed take, the worker searches for such calls: it took them last, and has not begun
 * them. It returns these calls to their queues.
 */
export function createLostTakes(
  { redis, keys }: Partition,
  { backendOf, worker, log }: { backendOf: Backends; worker: string; log: Logger },
) {
  const own = OWN.on(redis);
  const slots = new Map<string, Slot>();
  /**
   * Calls that this worker has begun, with their number of takes. A runner may have got such a call, so it must not be
   * returned as unsent. Only `moveStalledJobsToWait` may take it back, which records that its effect is unknown.
   */
  const begun = new Map<string, number>();
  /** Calls that this worker began, and whose hold it lost before it wrote their outcome. */
  const lost = new Set<string>();
  /**
   * Calls whose lock has expired, and which this worker took last and has not begun. The value has the slots that waited for
   * a reply when the call was found. One of these replies may still bring the call.
   */
  const doubtful = new Map<string, readonly Slot[]>();
  let isDue = false;
  const onReady = (): void => {
    isDue = true;
  };
  redis.on("ready", onReady);

  /**
   * Returns whether the call may be in a reply that has not arrived yet. If the call has a lock, its token names the slot
   * that would get the reply. Without a lock, it may be any slot that waits for a reply.
   */
  function mayCome(callId: string, token: string): boolean {
    if (token !== "") return slots.get(token)?.isTaking === true;
    const current = [...slots.values()];
    const unanswered = doubtful.get(callId) ?? current.filter(({ isTaking }) => isTaking);
    doubtful.set(callId, unanswered);
    return unanswered.some((slot) => current.includes(slot));
  }

  async function releaseIn(queue: QueueName): Promise<string[]> {
    const [active, prefix] = [keys.inQueue(queue, "active"), keys.inQueue(queue, "")];
    const found = await own({ active }, { prefix, worker });
    for (const [callId, token, take] of found) {
      if (begun.get(callId) === Number(take)) continue;
      if (mayCome(callId, token)) {
        isDue = true;
        continue;
      }
      doubtful.delete(callId);
      await backendOf(queue).returnToQueue(callId, token, take).catch(unlessGone);
      log.warn("call.released", callFields(callId, queue));
    }
    return found.map(([callId]) => callId);
  }

  function keepOnly(found: ReadonlySet<string>): void {
    for (const callId of doubtful.keys()) if (!found.has(callId)) doubtful.delete(callId);
    for (const callId of lost) {
      if (found.has(callId)) continue;
      lost.delete(callId);
      begun.delete(callId);
    }
    if (lost.size > 0) isDue = true;
  }

  return {
    /** Notes that a slot begins to take a call. */
    taking: (token: string) => void slots.set(token, { isTaking: true }),

    /** Notes that a slot begins a call that it has taken. */
    begin(token: string, { id, take }: Pick<Held, "id" | "take">): void {
      slots.set(token, { isTaking: false });
      begun.set(id, take);
    },

    /** Notes that the work on a begun call has ended: its outcome is written, or its lock is lost. */
    end({ id, take, hold }: Held): void {
      if (begun.get(id) !== take) return;
      if (!hold.lost) begun.delete(id);
      else {
        lost.add(id);
        isDue = true;
      }
    },

    /** Notes that the slot is free. */
    free: (token: string) => void slots.delete(token),

    /** Starts a search, because a take may have failed after Redis took a call. */
    look: onReady,

    /**
     * If there was a new connection or a failed take, searches these queues for calls that Redis took for this worker, and
     * that the worker did not get. Returns them to their queues. Resolves with true if none is left.
     */
    async release(queues: readonly QueueName[]): Promise<boolean> {
      if (!isDue) return true;
      isDue = false;
      try {
        const found = await Promise.all(queues.map(releaseIn));
        keepOnly(new Set(found.flat()));
        return doubtful.size === 0;
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
