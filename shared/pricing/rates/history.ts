import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { integer, list, text, tuple } from "../../redis/reply.ts";
import readHistoryLua from "./read-history.lua";
import type { LiveToken, RatedToken } from "./source.ts";

/*
 * What a token was worth in the last hour and day: a hash for each token, with a field for each minute of an hour and for each five
 * minutes of a day, which are written over when their turn comes again. So it has 348 readings at most, whatever happens. Each is
 * `<when it was read> <value>`, by Redis' clock. Whoever reads a rate writes it for all tokens that have it; of several in a step, as
 * of gateways with another configuration, the last one stays. It outlives a change of the rate's source and bounds.
 */

export const RATE_SPANS = ["1h", "24h"] as const;
export type RateSpan = (typeof RATE_SPANS)[number];

const STEPS: Record<RateSpan, { ms: number; count: number }> = {
  "1h": { ms: 60_000, count: 60 },
  "24h": { ms: 300_000, count: 288 },
};

/** The constants of put.lua, which writes the readings. */
export const HISTORY = { HOUR: STEPS["1h"], DAY: STEPS["24h"], HISTORY_MS: 86_400_000 };

export function historyKey({ keys }: Partition, { network, asset }: RatedToken): string {
  return keys.rateHistory(network, asset.toLowerCase());
}

export type RateHistory = {
  /** When the first step begins, unix ms. */
  from: number;
  stepMs: number;
  /** The rate at the end of each step, the last one's of now, the oldest first; undefined where none was young enough to be used. */
  values: (string | undefined)[];
};

const READ = defineScript({
  source: readHistoryLua,
  keys: "history",
  proof: "reads",
  reply: tuple(integer, list(text)),
});

type Reading = { at: number; value: string };

/** What is too old to be used is judged by the token's settings of now. */
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

/** Of both kinds of steps, the oldest first. */
function readingsIn(flat: readonly string[]): Reading[] {
  const readings = new Map<number, Reading>();
  for (let i = 1; i < flat.length; i += 2) {
    const [at = "", value] = (flat[i] ?? "").split(" ");
    if (value !== undefined) readings.set(Number(at), { at: Number(at), value });
  }
  return [...readings.values()].sort((a, b) => a.at - b.at);
}
