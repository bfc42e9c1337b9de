import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { integer, text, tuple } from "../redis/reply.ts";
import { noteOf } from "./call-log.ts";
import { type GateAct, gateAct } from "./jobs.ts";
import { QUEUE_CONSTANTS } from "./lua-constants.ts";
import { gateOf, type QueueName } from "./queue-name.ts";
import { queuesBehind } from "./registry.ts";
import runDelayedLua from "./run-delayed.lua";

/** Builds the line of the audit log for one delayed call that an operator runs. */
export function runNowAct(callId: string, { at, by, reason }: GateAct) {
  return { at, action: "run_now", callId, by, selection: "by id", reason } satisfies AuditEntry;
}

/** Number of delayed calls that one step moves. */
const MOVED_AT_ONCE = 100;

const RUN_DELAYED = defineScript({
  source: runDelayedLua,
  keys: "acts, repeats, actCount",
  args: "prefix, gate, queue, id, from, since, line, note",
  constants: { ...QUEUE_CONSTANTS, AUDIT, MOVED_AT_ONCE },
  proof: "needed",
  reply: tuple(integer, text, text),
});

/** Runs delayed calls before their time. A pause, a throttle and the limits of their job still apply. */
export function openDelayed(partition: Partition) {
  const { redis, keys, prefix } = partition;
  const run = RUN_DELAYED.on(redis);
  const begin = { id: "", from: "-inf", since: "" };
  const step = (act: AuditEntry, queue: QueueName, asked: typeof begin & { line: string }) =>
    run(actKeys(keys, act), {
      ...{ prefix, gate: gateOf(queue), queue, ...asked },
      note: noteOf(act.by, act.reason),
    });

  return {
    /**
     * Runs the delayed calls of a job, step by step, and resolves with their number. If `audited`, the first step that moves
     * a call also writes one line to the audit log. If this process dies between two steps, the remaining calls stay delayed.
     */
    async runAllOf(job: string, why: GateAct, audited = true): Promise<number> {
      const act = gateAct("run_delayed", job, why);
      let moved = 0;
      let { since } = begin;
      for (const queue of await queuesBehind(partition, job)) {
        for (let from = begin.from; from !== ""; ) {
          const line = audited && moved === 0 ? toLine(act) : "";
          const [count, begun, next] = await step(act, queue, { ...begin, from, since, line });
          [moved, since, from] = [moved + count, begun, next];
        }
      }
      return moved;
    },

    /** Runs one call and writes the line of the audit log. Returns false if the queue has no such delayed call. */
    async call(id: string, queue: QueueName, why: GateAct): Promise<boolean> {
      const act = runNowAct(id, why);
      const [moved] = await step(act, queue, { ...begin, id, line: toLine(act) });
      return moved === 1;
    },
  };
}
