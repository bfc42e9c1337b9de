/** The states of a payment, as an operator is shown them. */
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
