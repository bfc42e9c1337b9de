export type SoakOptions = {
  /** `host:port` of the gateway. */
  address: string;
  /** URL at which the soak's runner serves its counts. */
  countUrl: string;
  calls: number;
  connections: number;
  /** Maximum number of new calls a second. */
  perSecond: number;
  /** Maximum number of calls that were sent and have not succeeded yet. */
  openMax: number;
};

export type SoakSent = {
  /** Number of calls with a large body. A gateway sends these to Redis over a connection of their own. */
  large: number;
  /** Number of 202 answers in which the gateway marked the delivery as a repeat (header `Idempotent-Replayed`). */
  replayed: number;
  /** Number of deliveries that the sender repeated on purpose, although it had sent them before. */
  repeats: number;
  /** Number of answers other than 202, by status. */
  refused: Readonly<Record<string, number>>;
  /** Number of deliveries that were sent again, as senders do, because they got no 202. */
  resent: number;
};

/** Counts of the job handlers in the soak's runner. */
export type SoakRuns = {
  /** Number of different calls that succeeded. */
  succeeded: number;
  /** Number of runs that succeeded although the call had succeeded before. */
  doubled: number;
  /** Number of first runs that failed, as planned. */
  failed: number;
};
