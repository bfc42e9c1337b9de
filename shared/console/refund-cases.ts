import { createPaymentList, type PaymentSummary } from "../payments/list.ts";
import { createFailedCalls } from "../queue/failed.ts";
import { inPages, walkScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";

/**
 * States of a payment whose job was not done, in the order in which a payment passes them. `FAILED`: the call can be
 * replayed, or the money paid back. `DISCARDED`: the money must be paid back. `REFUND_PENDING`: the refund is
 * exported.
 */
export const CASE_STATES = ["FAILED", "DISCARDED", "REFUND_PENDING"] as const;
export type CaseState = (typeof CASE_STATES)[number];

/** The reason why a call failed. */
export type Failure = { code: string; reason: string };

/** A payment, and the reason why its call failed. The reason is undefined once the call is no longer failed. */
export type Case = { payment: PaymentSummary; failure: Failure | undefined };

const AT_ONCE = 100;

/**
 * Reads the payments in one of `CASE_STATES` page by page. Redis has a list for each state, so the cost does not
 * depend on the total number of payments. `lookedAt` is the number of payments that were read for a page, including
 * those that have just left the state.
 */
export function createRefundCases(partition: Partition) {
  const { redis, keys } = partition;
  const payments = createPaymentList(partition);
  const calls = createFailedCalls(partition);

  async function* failedCalls(signal: AbortSignal | undefined) {
    const failed = calls.matching({ origin: "x402" }, { ...(signal && { signal }) });
    for await (const page of inPages(failed, AT_ONCE))
      yield page.map(({ id, code, reason }) => ({ id, failure: { code, reason } }));
  }

  async function* listed(key: string) {
    for await (const page of walkScored(redis, key, { size: AT_ONCE }))
      yield page.map(({ member }) => ({ id: member, failure: undefined }));
  }

  const placesIn = {
    FAILED: failedCalls,
    DISCARDED: () => listed(keys.paymentsDiscarded),
    REFUND_PENDING: () => listed(keys.refundsPending),
  } as const;

  return async function* casesIn(
    state: CaseState,
    signal?: AbortSignal,
  ): AsyncGenerator<{ cases: Case[]; lookedAt: number }> {
    for await (const page of placesIn[state](signal)) {
      if (signal?.aborted) return;
      const found = await payments.read(page.map(({ id }) => id));
      const cases = page.flatMap(({ failure }, i) => {
        const payment = found[i];
        return payment?.state === state ? [{ payment, failure }] : [];
      });
      yield { cases, lookedAt: page.length };
    }
  };
}
