import { randomUUID } from "node:crypto";
import { LET_GO } from "../call-history/keep.ts";
import type { Logger } from "../log/logger.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { GiveWay, givesWayAbove, type LetGo } from "../redis/give-way.ts";
import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import { HELD_MS, HOLD } from "./one-gateway.ts";

/*
 * History is what helps an operator to understand, and no call needs: the refused requests (shared/rejected), the calls that runners took
 * (shared/call-history), and the failed attempts of a call but the newest (shared/queue/call-record.ts). While Redis is nearly full, one gateway lets go of it, and its
 * key tells all writers to keep no more.
 */

/** How many keys of Redis are looked at in one step. */
const KEYS_A_STEP = 1000;

/** KEYS history-off, rejected. ARGV as HOLD, what the keys of the refused requests begin with. Answers how many went. */
const DROP_REFUSED = `${HOLD}
local gone = 0
for _, path in ipairs(redis.call('HKEYS', KEYS[2])) do
  gone = gone + redis.call('ZCARD', ARGV[3] .. path)
  redis.call('UNLINK', ARGV[3] .. path)
end
redis.call('DEL', KEYS[2])
return gone`;

/** KEYS history-off, history, its size. ARGV as HOLD, what the keys of blocks begin with. Answers how many blocks went. */
const DROP_CALLS = `${HOLD}${LET_GO}
return letGo(KEYS[2], KEYS[3], ARGV[3], function() return false end)`;

/** KEYS history-off. ARGV as HOLD, a pattern of the keys with attempts, a cursor. Answers the next cursor, and how many went. */
const TRIM_ATTEMPTS = `${HOLD}
local found, gone = redis.call('SCAN', ARGV[4], 'MATCH', ARGV[3], 'COUNT', ${KEYS_A_STEP}), 0
for _, attempts in ipairs(found[2]) do
  gone = gone + redis.call('LLEN', attempts) - 1
  redis.call('LTRIM', attempts, -1, -1)
end
return {found[1], gone}`;

type Options = { partition: Partition; durable: DurableRedis; webhooksAbove: number; log: Logger };

/** Lets go of history while Redis uses more of its `maxmemory` than it may, before webhooks are refused above `webhooksAbove`. */
export function watchHistory({ partition, durable, webhooksAbove, log }: Options): { stop(): void } {
  const { redis, keys } = partition;
  const dropRefused = script(redis, DROP_REFUSED);
  const dropCalls = script(redis, DROP_CALLS);
  const trimAttempts = script(redis, TRIM_ATTEMPTS);
  const held = [randomUUID(), HELD_MS];

  /** Once through all of it: what is written meanwhile is no more than may stay. After that, only the key is held. */
  function begin(): LetGo {
    let cursor: string | undefined = "0";

    async function trim(): Promise<number> {
      while (cursor !== undefined) {
        const reply = await trimAttempts([keys.historyOff], [...held, keys.attempts("*"), cursor]);
        if (reply === null) return 0;
        const [next, gone] = reply as [string, number];
        cursor = next === "0" ? undefined : next;
        if (gone > 0) return gone;
      }
      return 0;
    }

    return async () => {
      const refused = await dropRefused([keys.historyOff, keys.rejectedBytes], [...held, keys.rejected("")]);
      if (Number(refused) > 0) return Number(refused);
      const touched = [keys.historyOff, keys.history, keys.historySize];
      return Number(await dropCalls(touched, [...held, keys.historyBlock("")])) || trim();
    };
  }

  return new GiveWay({ what: "history", durable, above: givesWayAbove(webhooksAbove).history, begin, log });
}
