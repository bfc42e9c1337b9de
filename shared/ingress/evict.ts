import { randomUUID } from "node:crypto";
import type { Logger } from "../platform/log/logger.ts";
import { defineScript } from "../redis/define-script.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { type Evict, Evictor, evictionThresholds } from "../redis/eviction.ts";
import type { Partition } from "../redis/partition.ts";
import { integer, optional, text, tuple } from "../redis/reply.ts";
import dropCallsLua from "./drop-calls.lua";
import dropRefusedLua from "./drop-refused.lua";
import evictKeptLua from "./evict-kept.lua";
import evictResultsLua from "./evict-results.lua";
import trimAttemptsLua from "./trim-attempts.lua";

/*
 * While Redis is nearly full, one gateway evicts kept webhooks, results and history. For each kind of data, it sets a
 * key in Redis during this time. While the key exists, all processes store no new data of this kind (one-gateway.lua).
 * History helps operators, and no call needs it. It consists of the refused requests (shared/telemetry/rejected), the
 * calls that runners accepted (shared/call-search/history), and all but the newest entry of each call's log
 * (shared/queue/call-log.ts).
 */

const EVICT_KEPT = defineScript({
  source: evictKeptLua,
  keys: "off, endpoints",
  args: "gateway, index, count, prefix, bytesToFree",
  proof: "expendable",
  reply: optional(integer),
});

const EVICT_RESULTS = defineScript({
  source: evictResultsLua,
  keys: "off, results, bytes",
  args: "gateway, prefix, bytesToFree",
  proof: "expendable",
  reply: optional(integer),
});

const DROP_REFUSED = defineScript({
  source: dropRefusedLua,
  keys: "off, rejected",
  args: "gateway, prefix",
  proof: "expendable",
  reply: optional(integer),
});

const DROP_CALLS = defineScript({
  source: dropCallsLua,
  keys: "off, history, size",
  args: "gateway, prefix",
  proof: "expendable",
  reply: optional(integer),
});

const TRIM_ATTEMPTS = defineScript({
  source: trimAttemptsLua,
  keys: "off",
  args: "gateway, pattern, cursor",
  proof: "expendable",
  reply: optional(tuple(text, integer)),
});

type Options = { partition: Partition; durable: DurableRedis; webhooksAbove: number; log: Logger };

/**
 * Starts the eviction of kept webhooks, results and history while Redis uses too much of its `maxmemory`. Each kind has
 * a threshold of its own, in this order. All thresholds are lower than `webhooksAbove`, the ratio above which webhooks
 * are refused.
 */
export function startEviction({ partition, durable, webhooksAbove, log }: Options): { stop(): void } {
  const above = evictionThresholds(webhooksAbove);
  const gateway = randomUUID();
  const watches = [
    new Evictor({ what: "kept", durable, above: above.kept, begin: evictKept(partition, gateway), log }),
    new Evictor({
      what: "results",
      durable,
      above: above.results,
      begin: evictResults(partition, gateway),
      log,
    }),
    new Evictor({
      what: "history",
      durable,
      above: above.history,
      begin: evictHistory(partition, gateway),
      log,
    }),
  ];
  return {
    stop() {
      for (const watch of watches) watch.stop();
    },
  };
}

/** Evicts the kept webhooks of one endpoint at a time: the endpoint whose oldest webhook expires first. */
function evictKept({ redis, keys }: Partition, gateway: string): () => Evict {
  const evict = EVICT_KEPT.on(redis);
  const touched = { off: keys.keptOff, endpoints: keys.keptEndpoints };
  const [index, count, prefix] = [keys.keptOf(""), keys.keptBytes(""), keys.kept("")];
  return () => async (bytesToFree) =>
    (await evict(touched, { gateway, index, count, prefix, bytesToFree })) ?? 0;
}

/** Evicts the oldest results first. */
function evictResults({ redis, keys }: Partition, gateway: string): () => Evict {
  const evict = EVICT_RESULTS.on(redis);
  const touched = { off: keys.resultsOff, results: keys.results, bytes: keys.resultsBytes };
  const args = { gateway, prefix: keys.result("") };
  return () => async (bytesToFree) => (await evict(touched, { ...args, bytesToFree })) ?? 0;
}

/**
 * Deletes all history, in several steps. Once all is deleted, each further call only renews the gateway's key in Redis.
 * No process adds history while that key exists.
 */
function evictHistory({ redis, keys }: Partition, gateway: string): () => Evict {
  const dropRefused = DROP_REFUSED.on(redis);
  const dropCalls = DROP_CALLS.on(redis);
  const trimAttempts = TRIM_ATTEMPTS.on(redis);
  const off = keys.historyOff;

  return () => {
    let cursor: string | undefined = "0";

    async function trim(): Promise<number> {
      while (cursor !== undefined) {
        const trimmed = await trimAttempts({ off }, { gateway, pattern: keys.attempts("*"), cursor });
        if (trimmed === undefined) return 0;
        const [next, gone] = trimmed;
        cursor = next === "0" ? undefined : next;
        if (gone > 0) return gone;
      }
      return 0;
    }

    return async () => {
      const refused = { off, rejected: keys.rejectedBytes };
      const calls = { off, history: keys.history, size: keys.historySize };
      return (
        (await dropRefused(refused, { gateway, prefix: keys.rejected("") })) ||
        (await dropCalls(calls, { gateway, prefix: keys.historyBlock("") })) ||
        trim()
      );
    };
  };
}
