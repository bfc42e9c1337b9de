import { randomUUID } from "node:crypto";
import type { Logger } from "../log/logger.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { GiveWay, givesWayAbove } from "../redis/give-way.ts";
import { KEPT_VALUES } from "../redis/kept-values.ts";
import type { Partition } from "../redis/partition.ts";
import { NOW, script } from "../redis/script.ts";
import { HELD_MS, HOLD } from "./one-gateway.ts";

/** KEYS results-off, results, their bytes. ARGV as HOLD, what the keys of results begin with, how many bytes to make free. */
const MAKE_ROOM = `${HOLD}${NOW}${KEPT_VALUES}
local kept = tonumber(redis.call('GET', KEYS[3]) or 0)
return (letGo(KEYS[2], KEYS[3], ARGV[3], kept - ARGV[4]))`;

type Options = { partition: Partition; durable: DurableRedis; webhooksAbove: number; log: Logger };

/**
 * Lets go of results, the oldest first, while Redis uses more of its `maxmemory` than it may, before webhooks are refused above
 * `webhooksAbove`. What comes meanwhile is not kept (shared/results/keep-result.ts).
 */
export function watchResults({ partition, durable, webhooksAbove, log }: Options): { stop(): void } {
  const { redis, keys } = partition;
  const makeRoom = script(redis, MAKE_ROOM);
  const touched = [keys.resultsOff, keys.results, keys.resultsBytes];
  const gateway = randomUUID();
  const letGo = async (bytes: number) =>
    Number(await makeRoom(touched, [gateway, HELD_MS, keys.result(""), bytes]));
  return new GiveWay({
    ...{ what: "results", durable, log },
    above: givesWayAbove(webhooksAbove).results,
    begin: () => letGo,
  });
}
