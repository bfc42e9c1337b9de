/** The header that says when a request was sent, in nanoseconds of the machine's monotonic clock. It comes to the runner. */
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
  /** Answers by status. */
  statuses: Readonly<Record<string, number>>;
  /** Sent, but the connection ended before the answer. */
  unanswered: number;
  /** How often a request was due and every connection waited for an answer. */
  late: number;
};
