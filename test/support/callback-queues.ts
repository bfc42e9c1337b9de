import { randomCallId } from "../../shared/job-call/call-id.ts";
import { callbackQueueOf, gateOf } from "../../shared/queue/queue-name.ts";
import { addLua } from "../../shared/queue/scripts.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { script } from "../../shared/redis/script.ts";

const ADDS_AT_ONCE = 200;

/** Adds a callback of job 7/1 for each of these receivers, as the end of their calls does. */
export async function addCallbacks({ redis, prefix }: Partition, receivers: readonly string[], data = "{}") {
  const add = script(
    redis,
    `local prefix, now = ARGV[1] .. ':', ARGV[2]
${addLua()}
for i = 4, #ARGV, 3 do add(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[3]) end
endBatch()`,
  );
  for (let first = 0; first < receivers.length; first += ADDS_AT_ONCE) {
    const calls = receivers.slice(first, first + ADDS_AT_ONCE).flatMap((receiver) => {
      const queue = callbackQueueOf("7/1", receiver);
      return [gateOf(queue), queue, randomCallId()];
    });
    await add([], [prefix, Date.now(), data, ...calls]);
  }
}

export function manyReceivers(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `host-${String(i).padStart(6, "0")}.example.com`);
}
