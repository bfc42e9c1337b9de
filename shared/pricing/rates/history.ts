import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { integer, list, text, tuple } from "../../redis/reply.ts";
import readHistoryLua from "./read-history.lua";
import type { LiveToken, RatedToken } from "./source.ts";

/*
 * Stores, for each token, the rates of the last hour and of the last day in a hash in Redis. It has a field for each minute of an
 * hour, and one for each five minutes of a day. A field is overwritten an hour or a day later, so a hash has at most 348 fields.
 * Each field is `<time of the read> <value>`, by Redis' clock.
 * A process that has read a rate from its source writes it for all tokens with this rate. Several gateways may write in the same
 * interval, for example with different configurations. Then the last write counts. The history is kept if the rate's source or
 * bounds are changed.
 */

export const RATE_SPANS = ["1h", "24h"] as const;
export type RateSpan = (typeof RATE_SPANS)[number];

const STEPS: Record<RateSpan, { ms: number; count: number }> = {
  "1h": { ms: 60_000, count: 60 },
  "24h": { ms: 300_000, count: 288 },
};

/** Constants for put.lua, which writes the history. */
export const HISTORY = { HOUR: STEPS["1h"], DAY: STEPS["24h"], HISTORY_MS: 86_400_000 };

export function historyKey({ keys }: Partition, { network, asset }: RatedToken): string {
  return keys.rateHistory(network, asset.toLowerCase());
}

export type RateHistory = {
  /** Start of the first interval, unix ms. */
  from: number;
  stepMs: number;
  /**
   * The rate at the end of each interval, the oldest first. The last one is the current rate. Undefined for an interval at whose
   * end no rate was recent enough to be used.
   */
  values: (string | undefined)[];
};

const READ = defineScript({
  source: readHistoryLua,
  keys: "history",
  proof: "reads",
  reply: tuple(integer, list(text)),
});

type Reading = { at: number; value: string };

/**
 * Creates a function that reads the history. The token's current settings decide which rates were recent enough to be used, even
 * if the settings were different at the time.
 */
export function createReadRateHistory(partition: Partition) {
  const read = READ.on(partition.redis);
  return async (token: LiveToken, span: RateSpan): Promise<RateHistory> => {
    const [now, flat] = await read({ history: historyKey(partition, token) });
    const { ms: stepMs, count } = STEPS[span];
    const from = now - (now % stepMs) - (count - 1) * stepMs;
    const readings = readingsIn(flat);
    const maxAgeMs = token.max_rate_age_secs * 1000;
    const values = Array.from({ length: count }, (_, i) => {
      const end = from + (i + 1) * stepMs;
      const newest = readings.findLast(({ at }) => at < end);
      const isUsed = newest !== undefined && newest.at + maxAgeMs >= Math.min(end, now);
      return isUsed ? newest.value : undefined;
    });
    return { from, stepMs, values };
  };
}

/** Parses the stored hash. Returns all rates of the last hour and of the last day, oldest first. */
function readingsIn(flat: readonly string[]): Reading[] {
  const readings = new Map<number, Reading>();
  for (let i = 1; i < flat.length; i += 2) {
    const [at = "", value] = (flat[i] ?? "").split(" ");
    if (value !== undefined) readings.set(Number(at), { at: Number(at), value });
  }
  return [...readings.values()].sort((a, b) => a.at - b.at);
}
