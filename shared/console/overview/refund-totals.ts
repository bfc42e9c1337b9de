import { z } from "zod";
import type { PaymentSummary } from "../../payments/list.ts";
import { askReachable } from "../../redis/merge.ts";
import { type Partitions, shareOf } from "../../redis/partition.ts";
import { createPaidSum, PartialSum } from "../paid-sum.ts";
import { type CaseState, createRefundCases } from "../refund-cases.ts";
import type { DecimalsOf } from "../tokens.ts";

/**
 * Sums of the payments for calls that were not done. A sum is not whole if there were too many to look at all, or if a partition could not be
 * read.
 */
export const RefundTotals = z.object({
  /** Calls that failed: they can be run again, or their money paid back. */
  failed: PartialSum,
  /** Discarded calls: their money must be paid back. */
  due: PartialSum,
  /** Calls whose refund is exported and not seen on the chain yet. */
  exported: PartialSum,
});
export type RefundTotals = z.infer<typeof RefundTotals>;

/** Limit on the payments that are read in each state. */
const LOOKED_AT_MAX = 10_000;

/** Length of the rest after a reading, in multiples of its duration. It is bounded, because Redis may have stalled during the reading. */
const REST = 20;
const REST_MS_MAX = 10_000;

/** Older totals are not answered while they are read again. */
const KNOWN_MS_MAX = 60_000;

/**
 * Adds up the payments for calls that were not done. A call gets the totals of the last reading, and begins the next one if the rest after
 * that is over. It waits for a reading only if the last one is older than a minute.
 */
export function createReadRefundTotals(
  partitions: Partitions,
  decimalsOf: DecimalsOf,
): () => Promise<RefundTotals> {
  const each = partitions.map(createRefundCases);

  async function totalOf(state: CaseState): Promise<PartialSum> {
    const paid = createPaidSum(decimalsOf);
    const max = shareOf(LOOKED_AT_MAX, each.all.length);
    const { answers, unreached } = await askReachable(each, (casesIn) => readUpTo(max, casesIn(state)));
    const read = [...answers.values()];
    for (const payment of read.flatMap(({ payments }) => payments)) paid.add(payment);
    return { ...paid.sum(), is_whole: unreached.size === 0 && read.every(({ isAll }) => isAll) };
  }

  return readBehind(async () => {
    // In the order of the states: a call that moves on meanwhile is then not missed.
    const failed = await totalOf("FAILED");
    const due = await totalOf("DISCARDED");
    return { failed, due, exported: await totalOf("REFUND_PENDING") };
  });
}

async function readUpTo(max: number, pages: ReturnType<ReturnType<typeof createRefundCases>>) {
  const payments: PaymentSummary[] = [];
  let looked = 0;
  for await (const { cases, lookedAt } of pages) {
    payments.push(...cases.map(({ payment }) => payment));
    looked += lookedAt;
    if (looked >= max) return { payments, isAll: false };
  }
  return { payments, isAll: true };
}

/** Shares each reading among its callers, and its result until the next one has ended. A reading that fails changes nothing. */
function readBehind<Value>(read: () => Promise<Value>): () => Promise<Value> {
  let known: { value: Value; at: number; restsUntil: number } | undefined;
  let reading: Promise<Value> | undefined;

  async function readNow(): Promise<Value> {
    const begunAt = performance.now();
    try {
      const value = await read();
      const at = performance.now();
      known = { value, at, restsUntil: at + Math.min(REST_MS_MAX, REST * (at - begunAt)) };
      return value;
    } finally {
      reading = undefined;
    }
  }

  return async () => {
    const now = performance.now();
    if (known !== undefined && now < known.restsUntil) return known.value;
    reading ??= readNow();
    if (known === undefined || now > known.at + KNOWN_MS_MAX) return reading;
    reading.catch(() => {});
    return known.value;
  };
}
