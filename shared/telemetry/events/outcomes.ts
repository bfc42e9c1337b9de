/** Outcomes that events report about a call. */
export const OUTCOMES = ["accepted", "refused", "injected", "retried", "failed"] as const;
export type EventOutcome = (typeof OUTCOMES)[number];
