import type { Fields } from "../log/logger.ts";
import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, script } from "../redis/script.ts";
import type { Clock } from "../time/clock.ts";
import { createSeriesMeters } from "./from-log.ts";
import { Series } from "./series.ts";
import { ADD_COUNTED, toBatches } from "./write.ts";

/** KEYS of the batch. ARGV batch. */
const COUNT = `${EVEN_IF_FULL}${ADD_COUNTED}
addCounted(cjson.decode(ARGV[1]), 1)`;

export type CountOnce = (event: string, fields: Fields) => Promise<void>;

/** Counts an event for a command, which does not report and ends soon. If Redis does not take it, it is not counted. */
export function createCountOnce({ redis, keys }: Partition, clock: Clock): CountOnce {
  const count = script(redis, COUNT);
  return async (event, fields) => {
    const series = new Series(clock);
    createSeriesMeters(series)[event]?.(fields);
    for (const batch of toBatches(series.take(), keys)) await count(batch.keys, [batch.json]).catch(() => {});
  };
}
