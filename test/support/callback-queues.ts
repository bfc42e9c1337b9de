import { randomCallId } from "../../shared/call/call-id.ts";
import { QUEUE_CONSTANTS } from "../../shared/queue/lua-constants.ts";
import { callbackQueueOf, gateOf } from "../../shared/queue/queue-name.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { nothing } from "../../shared/redis/reply.ts";
import addCallbacksLua from "./add-callbacks.lua";

const ADDS_AT_ONCE = 200;

const ADD = defineScript({
  source: addCallbacksLua,
  keys: "",
  args: "prefix, data, ...calls(gate, queue, id)",
  constants: QUEUE_CONSTANTS,
  proof: "expendable",
  reply: nothing,
});

/** Adds a callback of job 7/1 for each of these receivers, as the script that ends a call does. */
export async function addCallbacks({ redis, prefix }: Partition, receivers: readonly string[], data = "{}") {
  const add = ADD.on(redis);
  for (let first = 0; first < receivers.length; first += ADDS_AT_ONCE) {
    const calls = receivers.slice(first, first + ADDS_AT_ONCE).map((receiver) => {
      const queue = callbackQueueOf("7/1", receiver);
      return { gate: gateOf(queue), queue, id: randomCallId() };
    });
    await add({}, { prefix, data, calls });
  }
}

export function manyReceivers(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `host-${String(i).padStart(6, "0")}.example.com`);
}
