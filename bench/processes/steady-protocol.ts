/**
 * Header with the time when a request was sent, in nanoseconds of the machine's monotonic clock. The gateway forwards it to
 * the runner, which computes the latency from it.
 */
export const SENT_HEADER = "X-Sent-At";

export type SteadyOptions = {
  /** Address of the server that gets the requests, as `host:port`. */
  address: string;
  path: string;
  body: string;
  /** Header lines of every request. */
  headers: readonly string[];
  connections: number;
  perSecond: number;
  calls: number;
};

export type SteadyResult = {
  /** Number of answers by status. */
  statuses: Readonly<Record<string, number>>;
  /** Number of requests whose connection ended before the answer. */
  unanswered: number;
  /**
   * Number of requests that are due but not sent, because every connection waits for an answer. The sender counts them each
   * millisecond and adds the numbers up. If the sum is above 0, it has not kept its rate.
   */
  late: number;
};
