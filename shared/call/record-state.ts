import { unreadable } from "../redis/unreadable.ts";

/**
 * States that only paid calls have: a refund was exported, and perhaps seen on the chain (shared/payments/refunds.ts). Such a
 * call is in no queue, and never runs again.
 */
const REFUND_STATES = ["REFUND_PENDING", "REFUNDED"] as const;
export type RefundState = (typeof REFUND_STATES)[number];

/** States of a call that is or was in its queue (shared/queue/protocol.ts). */
const RECORD_STATES = ["QUEUED", "FAILED", "INJECTED", "DISCARDED", ...REFUND_STATES] as const;
export type RecordState = (typeof RECORD_STATES)[number];

export const isRecordState = (state: string): state is RecordState =>
  (RECORD_STATES as readonly string[]).includes(state);

/** All states of records, including those of a paid call that is not in its queue yet. */
export const STATES = ["SETTLING", "VOID", "REVIEW", ...RECORD_STATES] as const;
export type State = (typeof STATES)[number];

/** Parses the state of a record. Throws `record.unreadable` if the state is unknown. */
export function toState(id: string, state: string): State {
  const known = STATES.find((each) => each === state);
  if (known === undefined) throw unreadable(`the record of ${id}`);
  return known;
}

/** Final states: no attempt and no replay changes them. */
export const ENDED_STATES = [
  "INJECTED",
  "DISCARDED",
  ...REFUND_STATES,
] as const satisfies readonly RecordState[];

/**
 * The states as texts for Lua scripts. A script looks for a state with a space before and after it, so that no part of
 * another state matches.
 */
export const RECORD = { states: ` ${STATES.join(" ")} `, ended: ` ${ENDED_STATES.join(" ")} ` };
