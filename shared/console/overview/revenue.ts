import { z } from "zod";
import { loadAcceptedTokens } from "../../config/accepted-tokens.ts";
import type { Env } from "../../config/secrets.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { askAll } from "../../redis/merge.ts";
import type { Partitions } from "../../redis/partition.ts";
import { createReadSeries, sumOfEarned } from "../../telemetry/series/read.ts";
import { count } from "../view.ts";

/** Payments, disputed payments and refunds on one day, for one job and in one token. */
export const EarnedView = z
  .object({
    /** Day in UTC, such as 2026-03-01. */
    day: z.iso.date(),
    /** Network of the token, as a CAIP-2 id. */
    network: z.string(),
    asset: z.string(),
    /** Symbol of the token; null if the token is not configured. */
    symbol: z.string().nullable(),
    decimals: count.nullable(),
    /**
     * `<service id>/<job index>`. Null for all further jobs together: only a limited number of jobs is counted
     * separately.
     */
    job: z.string().nullable(),
    payments: count,
    /** Amount in the token's smallest units, as a decimal string. Disputed payments and refunds are not deducted. */
    amount: z.string(),
    /** Number of these payments that the chain contradicts, acknowledged or not. */
    disputes: count,
    /** Amount in the token's smallest units, as a decimal string. */
    disputed: z.string(),
    /** Number of refunds that were seen on the chain on that day. Their payments may be older. */
    refunds: count,
    /** Amount in the token's smallest units, as a decimal string. */
    refunded: z.string(),
  })
  .meta({ id: "Earned" });
export type EarnedView = z.infer<typeof EarnedView>;

export const REVENUE_DAYS_MAX = 90;

/** Reads the revenue of the last `days` days, newest first. */
export type ReadRevenue = (days: number) => Promise<EarnedView[]>;

type Deps = { partitions: Partitions; configDir: string; env: Env; clock: Clock };

/**
 * Reads the revenue. Each partition has the counts of disputes and refunds for its own payments, and partition 0 has
 * the counts of all payments. A payment counts on the day of its settlement, also if it is disputed. A refund counts
 * on the day when it was seen on the chain.
 */
export function createReadRevenue({ partitions, configDir: dir, env, clock }: Deps): ReadRevenue {
  const each = partitions.map((partition) => createReadSeries(partition, clock));
  return async function readRevenue(days) {
    const earned = sumOfEarned((await askAll(each, (series) => series.earned(days))).flat());
    if (earned.length === 0) return [];
    const tokens = loadAcceptedTokens({ dir, env }, "names") ?? [];
    return earned.map(({ network, asset, job, amount, disputed, refunded, ...rest }) => {
      const token = tokens.find(
        (each) => each.network === network && each.asset.toLowerCase() === asset.toLowerCase(),
      );
      const { symbol, decimals } = { symbol: token?.symbol ?? null, decimals: token?.decimals ?? null };
      return {
        ...rest,
        network,
        asset,
        symbol,
        decimals,
        job: job ?? null,
        amount: String(amount),
        disputed: String(disputed),
        refunded: String(refunded),
      };
    });
  };
}
