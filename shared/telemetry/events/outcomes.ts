/** What can happen to a call, as events tell it. */
export const OUTCOMES = ["accepted", "refused", "injected", "retried", "failed"] as const;
export type EventOutcome = (typeof OUTCOMES)[number];
