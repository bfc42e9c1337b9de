/** A webhook that was accepted. */
export type AcceptedCall = {
  readonly callId: string;
  readonly jobId: number;
  readonly path: string;
  readonly contentType: string;
  readonly body: string;
};

/** What the demo itself did and was answered, counted where it happened. */
export type Tally = {
  /** Requests sent to the gateway. */
  sent: number;
  /** Calls that were answered with 202, by id. */
  accepted: Map<string, AcceptedCall>;
  /** 202 for a delivery that was known. */
  repeats: number;
  /** Anything but 202. */
  refused: number;
  /** Calls that an operator's replay took out of the failed ones. */
  replayed: number;
  /** Calls offered to the runner once more by the demo itself, to see what it remembers. */
  askedAgain: number;
};

export function createTally(): Tally {
  return { sent: 0, accepted: new Map(), repeats: 0, refused: 0, replayed: 0, askedAgain: 0 };
}
