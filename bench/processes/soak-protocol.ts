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
  /** Number of calls that a gateway sends to Redis over its connection for large calls. */
  large: number;
  /** Number of 202 answers which said that the delivery was known. */
  replayed: number;
  /** Number of repeated deliveries. */
  repeats: number;
  /** Number of answers other than 202, by status. */
  refused: Readonly<Record<string, number>>;
  /** Number of deliveries that were sent again, as senders do, because they got no 202. */
  resent: number;
};

/** Counts of the soak's handlers. */
export type SoakRuns = {
  /** Number of different calls that succeeded. */
  succeeded: number;
  /** Number of runs that succeeded although the call had succeeded before. */
  doubled: number;
  /** Number of first runs that failed, as planned. */
  failed: number;
};
