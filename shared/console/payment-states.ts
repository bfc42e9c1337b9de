/** The states of a payment in the operator's views. */
export const PAYMENT_STATE_VIEWS = [
  "settling",
  "queued",
  "failed",
  "injected",
  "discarded",
  "refund_pending",
  "refunded",
  "void",
  "review",
] as const;
export type PaymentStateView = (typeof PAYMENT_STATE_VIEWS)[number];
