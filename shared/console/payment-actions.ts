import { isDisputed } from "../payments/list.ts";
import type { Payment, PaymentState } from "../payments/payment.ts";

/** Actions of an operator on a payment. */
export const PAYMENT_ACTIONS = [
  /** Have a gateway look at it now. */
  "reconcile",
  /** Say that it is paid, and by which transaction. */
  "settle",
  /** Say that it is not paid, and will not be. */
  "void",
  /** Record that an operator has seen what contradicts it. */
  "acknowledge",
  /** Delete its body although it may still be paid: no further settle request is sent. */
  "drop",
  /** Of its call: run it again, or end it. */
  "replay",
  "discard",
  /** Export its refund; or, once it is exported, look whether the chain shows it. */
  "refund",
  "refund-check",
  /** Take its exported refund back, because the runner has done the job. */
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
