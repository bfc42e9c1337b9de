import type { QueueName } from "../../shared/queue/queue-name.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { nothing } from "../../shared/redis/reply.ts";
import multiplyFailedLua from "./multiply-failed.lua";

const MULTIPLY = defineScript({
  source: multiplyFailedLua,
  keys: "registry",
  args: "prefix, queue, id, to, first, count, everyMs",
  proof: "expendable",
  reply: nothing,
});

const COPIES_AT_ONCE = 500;

type Wanted = {
  /** The call to copy. */
  of: { id: string; queue: QueueName };
  copies: number;
  /** Number of the first copy; default 1. */
  first?: number;
  /** Queues of the copies, used in turn. */
  queues?: readonly QueueName[];
  /** Time from one copy's failure to the next. Without it, all fail in the same millisecond as the call itself. */
  everyMs?: number;
  /** Number of copies in one step. Lower it for large bodies. */
  atOnce?: number;
};

/**
 * Makes many failed calls out of one, much faster than a producer could. Their ids derive from their numbers
 * (`copyId`).
 */
export async function multiplyFailed({ redis, keys, prefix }: Partition, wanted: Wanted): Promise<void> {
  const { of, copies, first = 1, queues = [of.queue], everyMs = 0, atOnce = COPIES_AT_ONCE } = wanted;
  const multiply = MULTIPLY.on(redis);
  for (let done = 0, turn = 0; done < copies; turn++) {
    const count = Math.min(atOnce, Math.ceil(copies / queues.length), copies - done);
    const to = queues[turn % queues.length] as QueueName;
    await multiply({ registry: keys.queues }, { prefix, ...of, to, first: first + done, count, everyMs });
    done += count;
  }
}

export function copyId(number: number): string {
  return `c_${number.toString(16).padStart(8, "0").padEnd(32, "0")}`;
}
