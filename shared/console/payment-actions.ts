import { isDisputed } from "../payments/list.ts";
import type { Payment, PaymentState } from "../payments/payment.ts";

/** Actions of an operator on a payment. */
export const PAYMENT_ACTIONS = [
  /** Have a gateway check the payment now. */
  "reconcile",
  /** Decide that the payment was made, and by which transaction. */
  "settle",
  /** Decide that the payment was not made and can no longer be made. */
  "void",
  /** Record that an operator has seen the contradicting evidence. */
  "acknowledge",
  /** Delete the payment's body although the payment may still be made. No further settle request is sent. */
  "drop",
  /** Replay or discard the payment's call. */
  "replay",
  "discard",
  /** Export the payment's refund, or check whether the chain shows the exported refund. */
  "refund",
  "refund-check",
  /** Withdraw the payment's exported refund, because the runner has done the job. */
  "refund-withdraw",
] as const;
type PaymentAction = (typeof PAYMENT_ACTIONS)[number];

const ACTIONS: Readonly<Record<PaymentState, readonly PaymentAction[]>> = {
  SETTLING: ["reconcile", "drop"],
  QUEUED: ["reconcile"],
  FAILED: ["replay", "discard", "refund"],
  INJECTED: [],
  DISCARDED: ["refund"],
  REFUND_PENDING: ["refund-check"],
  REFUNDED: [],
  VOID: [],
  REVIEW: ["settle", "void", "drop"],
};

export function actionsFor(
  payment: Pick<Payment, "state" | "lateAt" | "reason" | "settlement" | "acknowledged" | "dropped">,
): PaymentAction[] {
  const isLate = payment.state === "REFUND_PENDING" && payment.lateAt !== undefined;
  const actions = isLate ? (["refund-withdraw"] as const) : ACTIONS[payment.state];
  return [
    ...(isDisputed(payment) ? (["acknowledge"] as const) : []),
    ...actions.filter((action) => action !== "drop" || payment.dropped === undefined),
  ];
}
