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

/** What a slot does. Each step of it is another object. */
type Slot = {
  /** Whether a take may be unanswered. */
  readonly isTaking: boolean;
};

export type LostTakes = ReturnType<typeof createLostTakes>;

/**
 * A connection may break after Redis has taken a call for this worker and before the worker knows of it: the command is sent again,
 * and finds something else. Or the take is not proven, and a failover may undo it. Nobody renews the lock of such a call, and once that has
 * run out, the call would look as if it had ended a process. So after each new connection or failed take, the worker gives back the calls that
 * it took last and has not begun.
 */
export function createLostTakes(
  { redis, keys }: Partition,
  { backendOf, worker, log }: { backendOf: Backends; worker: string; log: Logger },
) {
  const own = OWN.on(redis);
  const slots = new Map<string, Slot>();
  /** Begun calls, and their number of takes. A runner may have them, so only `moveStalledJobsToWait` may take them back. */
  const begun = new Map<string, number>();
  /** Begun calls whose lock was lost before their end was written. */
  const lost = new Set<string>();
  /** Calls without a lock that are not begun, and the takes that were unanswered when they were found. */
  const doubtful = new Map<string, readonly Slot[]>();
  let isDue = false;
  const onReady = (): void => {
    isDue = true;
  };
  redis.on("ready", onReady);

  /** Whether the answer to a take could still bring the call. A call with a lock names its slot by the token. */
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
      await backendOf(queue).giveBack(callId, token, take).catch(unlessGone);
      log.warn("call.released", callFields(callId, queue));
    }
    return found.map(([callId]) => callId);
  }

  function forgetAllBut(found: ReadonlySet<string>): void {
    for (const callId of doubtful.keys()) if (!found.has(callId)) doubtful.delete(callId);
    for (const callId of lost) {
      if (found.has(callId)) continue;
      lost.delete(callId);
      begun.delete(callId);
    }
    if (lost.size > 0) isDue = true;
  }

  return {
    /** A slot begins to take a call. */
    taking: (token: string) => void slots.set(token, { isTaking: true }),

    /** A slot begins a call that it has taken. */
    begin(token: string, { id, take }: Pick<Held, "id" | "take">): void {
      slots.set(token, { isTaking: false });
      begun.set(id, take);
    },

    /** The end of a begun call is written, or its lock is lost. */
    end({ id, take, hold }: Held): void {
      if (begun.get(id) !== take) return;
      if (!hold.lost) begun.delete(id);
      else {
        lost.add(id);
        isDue = true;
      }
    },

    /** The slot is free. */
    free: (token: string) => void slots.delete(token),

    /** A take may have failed after Redis took a call. */
    look: onReady,

    /**
     * Gives back, after a new connection or a failed take, the calls of these queues that this worker does not know of. Resolves with whether
     * none is left.
     */
    async release(queues: readonly QueueName[]): Promise<boolean> {
      if (!isDue) return true;
      isDue = false;
      try {
        const found = await Promise.all(queues.map(releaseIn));
        forgetAllBut(new Set(found.flat()));
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
