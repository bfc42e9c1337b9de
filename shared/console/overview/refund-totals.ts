import { z } from "zod";
import type { PaymentSummary } from "../../payments/list.ts";
import { askReachable } from "../../redis/merge.ts";
import { type Partitions, shareOf } from "../../redis/partition.ts";
import { createPaidSum, PartialSum } from "../paid-sum.ts";
import { type CaseState, createRefundCases } from "../refund-cases.ts";
import type { DecimalsOf } from "../tokens.ts";

/**
 * Sums of the payments for calls that were not done. A sum is incomplete if there were too many payments to read all,
 * or if a partition could not be read.
 */
export const RefundTotals = z.object({
  /** Sum paid for failed calls, which can be replayed or refunded. */
  failed: PartialSum,
  /** Sum paid for discarded calls, whose refund is due. */
  due: PartialSum,
  /** Sum paid for calls whose refund is exported but not yet seen on the chain. */
  exported: PartialSum,
});
export type RefundTotals = z.infer<typeof RefundTotals>;

/** Limit on the payments that are read in each state. */
const LOOKED_AT_MAX = 10_000;

/**
 * Pause after a refresh of the totals, as a multiple of the refresh's duration. The pause is limited, because Redis may
 * have stalled during the refresh.
 */
const REST_RATIO = 20;
const REST_MS_MAX = 10_000;

/** Maximum age of the totals that a request gets during a refresh. */
const KNOWN_MS_MAX = 60_000;

/**
 * Adds up the payments for calls that were not done. A request gets the cached totals, and begins a refresh unless
 * the last refresh ended just now. The request waits for the refresh only if the cached totals are older than a minute.
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

  return readInBackground(async () => {
    // Reads the states in the order in which payments pass them. So a payment whose state changes during the reads is
    // not missed.
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

/**
 * Caches a value, and refreshes it in the background. Callers that need a refresh at once wait for the same one. A
 * failed refresh keeps the old value.
 */
function readInBackground<Value>(read: () => Promise<Value>): () => Promise<Value> {
  let known: { value: Value; at: number; restsUntil: number } | undefined;
  let reading: Promise<Value> | undefined;

  async function readNow(): Promise<Value> {
    const begunAt = performance.now();
    try {
      const value = await read();
      const at = performance.now();
      known = { value, at, restsUntil: at + Math.min(REST_MS_MAX, REST_RATIO * (at - begunAt)) };
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
