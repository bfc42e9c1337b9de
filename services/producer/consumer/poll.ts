import { CALLBACKS_GATE, type QueueName } from "../../../shared/queue/queue-name.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { integer, list, optional, text, tuple } from "../../../shared/redis/reply.ts";
import lookLua from "./look.lua";
import moveDueLua from "./move-due.lua";

/** Number of due queues that one step moves. */
const DUE_AT_ONCE = 500;

const MOVE_DUE = defineScript({
  source: moveDueLua,
  keys: "wake, due",
  args: "prefix",
  constants: { DUE_AT_ONCE },
  proof: "expendable",
  reply: optional(integer),
});

/**
 * Number of queues that one poll checks. With this limit, the cost of a poll does not grow with the number of jobs.
 */
const QUEUES_A_POLL = 50;

const LOOK = defineScript({
  source: lookLua,
  keys: "wake, due, active, registry",
  args: "prefix, cursor",
  constants: { QUEUES_A_POLL, CALLBACKS_GATE },
  proof: "expendable",
  reply: tuple(list(text), text, list(tuple(text, integer))),
});

export type RegistryScan = {
  /** Queues with calls in flight. */
  active: QueueName[];
  /** Empty queues, with the time since BullMQ's last event of the queue. An unknown time counts as very long. */
  empty: { queue: QueueName; idleMs: number }[];
};

/**
 * Creates the two polls: one moves due queues to `wake`, and the other finds queues with calls whose names are missing there.
 */
export function createPoll({ redis, keys, prefix }: Partition) {
  const [moveDue, look] = [MOVE_DUE.on(redis), LOOK.on(redis)];
  const { wake, due, active, queues: registry } = keys;
  let cursor = "0";
  return {
    /** Moves due queues to `wake`. Resolves with the ms until the next queue is due. */
    moveDue: (): Promise<number | undefined> => moveDue({ wake, due }, { prefix }),

    /**
     * Checks the next part of the registry for queues with calls whose names are missing in `wake`, because a process popped
     * them and died.
     */
    async look(): Promise<RegistryScan> {
      const [inFlight, next, empty] = await look({ wake, due, active, registry }, { prefix, cursor });
      cursor = next;
      return { active: inFlight, empty: empty.map(([queue, idleMs]) => ({ queue, idleMs })) };
    },
  };
}
