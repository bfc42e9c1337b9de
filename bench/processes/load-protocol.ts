export type LoadOptions = {
  /** `host:port`. */
  address: string;
  path: string;
  body: string;
  /** Signs the body (hmac-sha256). */
  secret: string;
  connections: number;
  /** So many calls first, which are counted but not measured. */
  warmUp: number;
  calls: number;
};

export type LoadResult = {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** Answers 202, the warm-up included. */
  accepted: number;
  /** Other answers, by status. */
  refused: Readonly<Record<string, number>>;
  /** Sent, but the connection ended before the answer. */
  unanswered: number;
};
