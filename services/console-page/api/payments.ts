import type { AcknowledgeView } from "../../../shared/console/acknowledge-bulk.ts";
import type { RefundTotals } from "../../../shared/console/overview/refund-totals.ts";
import type { PaidSum } from "../../../shared/console/paid-sum.ts";
import type { PaymentView } from "../../../shared/console/payment-view.ts";
import type { Decision } from "../../../shared/console/payments.ts";
import type { Reconciled } from "../../../shared/console/reconcile.ts";
import { request } from "./ask.ts";

export type { AcknowledgeView as AcknowledgeBulk } from "../../../shared/console/acknowledge-bulk.ts";
export type { RefundTotals } from "../../../shared/console/overview/refund-totals.ts";
export type { EarnedView as Earned } from "../../../shared/console/overview/revenue.ts";
export type { PaidSum, PartialSum, TokenAmount } from "../../../shared/console/paid-sum.ts";
export type { PaymentDetail, PaymentView as Payment } from "../../../shared/console/payment-view.ts";

/** An action that an operator can take on a payment, or on its call. */
export type PaymentAction = PaymentView["actions"][number];
export type Sum = PaidSum["confirmed"];
export type Verdict = Decision["verdict"];

export const resolvePayment = (id: string, decision: Decision): Promise<unknown> =>
  request("POST", "api/v1/payments/{call_id}/resolve", { call_id: id, ...decision });

/** Starts a bulk operation that acknowledges disputed payments. */
export const beginAcknowledge = (ids: readonly string[], reason: string): Promise<AcknowledgeView> =>
  request("POST", "api/v1/payments/acknowledgements", { call_ids: [...ids], reason });

/** Makes a payment gateway check now whether a payment was made. */
export const reconcilePayment = (id: string): Promise<Reconciled> =>
  request("POST", "api/v1/payments/{call_id}/reconcile", { call_id: id });

/** Cancels a pending refund, because the runner accepted the call after the refund was exported. */
export const withdrawRefund = (id: string, reason: string): Promise<unknown> =>
  request("POST", "api/v1/payments/{call_id}/withdraw-refund", { call_id: id, reason });

/** Returns the number of paid calls in a sum. */
export const callsIn = ({ confirmed, unconfirmed, unreadable }: PaidSum): number =>
  confirmed.calls + unconfirmed.calls + unreadable;

/** Counts the paid calls that wait for an operator: those that have failed, and those with a refund due. */
export const notDoneIn = ({ failed, due }: RefundTotals): { count: number; isAtLeast: boolean } => ({
  count: callsIn(failed) + callsIn(due),
  isAtLeast: !failed.is_whole || !due.is_whole,
});
