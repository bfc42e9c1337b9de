export type SoakOptions = {
  /** `host:port` of the gateway. */
  address: string;
  /** Where the runner of the soak says what it ran. */
  countUrl: string;
  calls: number;
  connections: number;
  /** New calls a second, at most. */
  perSecond: number;
  /** Calls that were sent and have not succeeded yet, at most. */
  openMax: number;
};

export type SoakSent = {
  /** Calls that a gateway sends to Redis over its connection for large ones. */
  large: number;
  /** Answers with 202 that said that the delivery was known. */
  replayed: number;
  /** Deliveries of a call that was sent before. */
  repeats: number;
  /** Answers other than 202, by status. */
  refused: Readonly<Record<string, number>>;
  /** Deliveries that were sent again because they had no 202, as senders do: refused, or cut off. */
  resent: number;
};

/** What the handlers of a soak have seen so far. */
export type SoakRuns = {
  /** Different calls that succeeded. */
  succeeded: number;
  /** Runs that succeeded although the call had succeeded before. */
  doubled: number;
  /** First runs that failed, as planned. */
  failed: number;
};
