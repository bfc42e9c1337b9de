import type { Fields } from "../../platform/log/logger.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { nothing } from "../../redis/reply.ts";
import countOnceLua from "./count-once.lua";
import { createSeriesMeters } from "./from-log.ts";
import { Series } from "./series.ts";
import { SERIES, toBatches } from "./write.ts";

const COUNT = defineScript({
  source: countOnceLua,
  keys: "...counts",
  args: "batch",
  constants: { SERIES },
  proof: "expendable",
  reply: nothing,
});

export type CountOnce = (event: string, fields: Fields) => Promise<void>;

/**
 * Creates a function that adds an event to the counts in Redis at once. Services send their counts with their next
 * report. A CLI command sends no reports and ends soon, so it counts a payment that it settles with this function. If
 * Redis does not accept the count, it is lost.
 */
export function createCountOnce({ redis, keys }: Partition, clock: Clock): CountOnce {
  const count = COUNT.on(redis);
  return async (event, fields) => {
    const series = new Series(clock);
    createSeriesMeters(series)[event]?.(fields);
    for (const { counts, batch } of toBatches(series.take(), keys))
      await count({ counts }, { batch }).catch(() => {});
  };
}
