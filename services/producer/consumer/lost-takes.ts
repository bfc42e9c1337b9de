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
 * State of a slot. Each change of the state creates a new object, so comparing objects shows whether the slot has changed.
 */
type Slot = {
  /** True from the request to take a call until its reply is handled. */
  readonly isTaking: boolean;
};

export type LostTakes = ReturnType<typeof createLostTakes>;

/**
 * Finds calls that Redis has taken for this worker without the worker's knowledge. The connection may have broken before the
 * reply; the command is then sent again and takes another call. Or the take could not be proven, and the worker got an error
 * instead of the call.
 *
 * The worker does not renew the locks of such calls. When such a lock expires, it looks as if a process had died with the
 * call. So after each new connection or failed take, the worker searches for calls that it took last and has not begun. It
 * returns these calls to their queues.
 */
export function createLostTakes(
  { redis, keys }: Partition,
  { backendOf, worker, log }: { backendOf: Backends; worker: string; log: Logger },
) {
  const own = OWN.on(redis);
  const slots = new Map<string, Slot>();
  /**
   * Calls that this worker has begun, with their number of takes. A runner may have them, so only
   * `moveStalledJobsToWait` may take them back.
   */
  const begun = new Map<string, number>();
  /** Calls that this worker began, and whose lock it lost before it wrote their outcome. */
  const lost = new Set<string>();
  /**
   * Calls without a lock that this worker has not begun. The value has the slots that waited for a reply when the call was
   * found, because one of these replies may contain the call.
   */
  const doubtful = new Map<string, readonly Slot[]>();
  let isDue = false;
  const onReady = (): void => {
    isDue = true;
  };
  redis.on("ready", onReady);

  /** Returns whether a reply that has not arrived may contain the call. If the call has a lock, the token names its slot. */
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
     * After a new connection or a failed take, searches these queues for calls that this worker has taken unknowingly, and
     * returns them to their queues. Resolves with true if none is left.
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
