import type { AcknowledgeView } from "../../../shared/console/acknowledge-bulk.ts";
import type { RefundTotals } from "../../../shared/console/overview/refund-totals.ts";
import type { PaidSum } from "../../../shared/console/paid-sum.ts";
import type { PaymentView } from "../../../shared/console/payment-view.ts";
import type { Decision } from "../../../shared/console/payments.ts";
import type { Reconciled } from "../../../shared/console/reconcile.ts";
import { ask } from "./ask.ts";

export type { AcknowledgeView as AcknowledgeBulk } from "../../../shared/console/acknowledge-bulk.ts";
export type { RefundTotals } from "../../../shared/console/overview/refund-totals.ts";
export type { EarnedView as Earned } from "../../../shared/console/overview/revenue.ts";
export type { PaidSum, PartialSum, TokenAmount } from "../../../shared/console/paid-sum.ts";
export type { PaymentDetail, PaymentView as Payment } from "../../../shared/console/payment-view.ts";

/** What an operator may do about a payment, or about its call. */
export type PaymentAction = PaymentView["actions"][number];
export type Sum = PaidSum["confirmed"];
export type Verdict = Decision["verdict"];

export const resolvePayment = (id: string, decision: Decision): Promise<unknown> =>
  ask("POST", "api/v1/payments/{call_id}/resolve", { call_id: id, ...decision });

/** Begins to acknowledge many disputed payments. */
export const beginAcknowledge = (ids: readonly string[], reason: string): Promise<AcknowledgeView> =>
  ask("POST", "api/v1/payments/acknowledgements", { call_ids: [...ids], reason });

/** Has a gateway look at a payment now. */
export const reconcilePayment = (id: string): Promise<Reconciled> =>
  ask("POST", "api/v1/payments/{call_id}/reconcile", { call_id: id });

/** Ends a pending refund whose call the runner has taken after its export. */
export const withdrawRefund = (id: string, reason: string): Promise<unknown> =>
  ask("POST", "api/v1/payments/{call_id}/withdraw-refund", { call_id: id, reason });

/** How many paid calls a sum is about. */
export const callsIn = ({ confirmed, unconfirmed, unreadable }: PaidSum): number =>
  confirmed.calls + unconfirmed.calls + unreadable;

/** How many paid calls were not done and wait for somebody. */
export const notDoneIn = ({ failed, due }: RefundTotals): { count: number; isAtLeast: boolean } => ({
  count: callsIn(failed) + callsIn(due),
  isAtLeast: !failed.is_whole || !due.is_whole,
});
