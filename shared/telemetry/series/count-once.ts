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
 * Counts an event of a CLI command in Redis immediately, because the command ends soon and sends no reports. If Redis does
 * not accept the count, the count is lost.
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
