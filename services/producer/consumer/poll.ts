import { CALLBACKS_GATE, type QueueName } from "../../../shared/queue/queue-name.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { integer, list, optional, text, tuple } from "../../../shared/redis/reply.ts";
import lookLua from "./look.lua";
import moveDueLua from "./move-due.lua";

/** How many queues that are due are moved in one step. */
const DUE_AT_ONCE = 500;

const MOVE_DUE = defineScript({
  source: moveDueLua,
  keys: "wake, due",
  args: "prefix",
  constants: { DUE_AT_ONCE },
  proof: "expendable",
  reply: optional(integer),
});

/** How many queues of the registry one poll looks at, so that its cost does not grow with the number of jobs. */
const QUEUES_A_POLL = 50;

const LOOK = defineScript({
  source: lookLua,
  keys: "wake, due, active, registry",
  args: "prefix, cursor",
  constants: { QUEUES_A_POLL, CALLBACKS_GATE },
  proof: "expendable",
  reply: tuple(list(text), text, list(tuple(text, integer))),
});

export type Looked = {
  /** The queues with calls in hand. */
  active: QueueName[];
  /** Queues without a call, and how long ago their last event was; very long if it is unknown. */
  empty: { queue: QueueName; idleMs: number }[];
};

/** Finds the queues that nobody has told producers of. */
export function createPoll({ redis, keys, prefix }: Partition) {
  const [moveDue, look] = [MOVE_DUE.on(redis), LOOK.on(redis)];
  const { wake, due, active, queues: registry } = keys;
  let cursor = "0";
  return {
    /** Moves the queues that are due to `wake`. Resolves with in how many ms the next one is due. */
    moveDue: (): Promise<number | undefined> => moveDue({ wake, due }, { prefix }),

    /** Looks for what no wake-up told of; each time at another part of the registry. */
    async look(): Promise<Looked> {
      const [inHand, next, empty] = await look({ wake, due, active, registry }, { prefix, cursor });
      cursor = next;
      return { active: inHand, empty: empty.map(([queue, idleMs]) => ({ queue, idleMs })) };
    },
  };
}
