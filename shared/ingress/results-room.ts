import { randomUUID } from "node:crypto";
import type { Logger } from "../platform/log/logger.ts";
import { defineScript } from "../redis/define-script.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { GiveWay, givesWayAbove } from "../redis/give-way.ts";
import type { Partition } from "../redis/partition.ts";
import { integer, optional } from "../redis/reply.ts";
import makeRoomLua from "./make-room.lua";

const MAKE_ROOM = defineScript({
  source: makeRoomLua,
  keys: "off, results, bytes",
  args: "gateway, prefix, bytesToFree",
  reply: optional(integer),
});

type Options = { partition: Partition; durable: DurableRedis; webhooksAbove: number; log: Logger };

/**
 * Lets go of results, the oldest first, while Redis uses more of its `maxmemory` than it may, before webhooks are refused above
 * `webhooksAbove`. What comes meanwhile is not kept (shared/call/results/keep-result.lua).
 */
export function watchResults({ partition, durable, webhooksAbove, log }: Options): { stop(): void } {
  const { redis, keys } = partition;
  const makeRoom = MAKE_ROOM.on(redis);
  const touched = { off: keys.resultsOff, results: keys.results, bytes: keys.resultsBytes };
  const own = { gateway: randomUUID(), prefix: keys.result("") };
  const letGo = async (bytesToFree: number) => (await makeRoom(touched, { ...own, bytesToFree })) ?? 0;
  return new GiveWay({
    ...{ what: "results", durable, log },
    above: givesWayAbove(webhooksAbove).results,
    begin: () => letGo,
  });
}
