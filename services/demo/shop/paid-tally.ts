/** How the demo's paid requests were answered. */
export type PaidTally = {
  sent: number;
  /** Payments that were answered with 202, by the id of their call. */
  accepted: Set<string>;
  /** 202 for a payment that had got one already. */
  repeats: number;
  /** 503: to be sent again. */
  open: number;
  refused: number;
  /** The gateway was killed before it answered. */
  unanswered: number;
};

export function createPaidTally(): PaidTally {
  return { sent: 0, accepted: new Set(), repeats: 0, open: 0, refused: 0, unanswered: 0 };
}

/** Counts one answer; undefined where none came. */
export function countPaid(tally: PaidTally, status: number | undefined, callId: string): void {
  tally.sent += 1;
  if (status === undefined) tally.unanswered += 1;
  else if (status === 503) tally.open += 1;
  else if (status !== 202) tally.refused += 1;
  else if (tally.accepted.has(callId)) tally.repeats += 1;
  else tally.accepted.add(callId);
}
