/** Header with the send time, in nanoseconds of the machine's monotonic clock. The gateway forwards it to the runner. */
export const SENT_HEADER = "X-Sent-At";

export type SteadyOptions = {
  /** `host:port`. */
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
  /** Number of requests that were due while every connection waited for an answer. */
  late: number;
};
