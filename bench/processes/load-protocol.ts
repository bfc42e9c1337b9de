export type LoadOptions = {
  /** Address of the server that gets the requests, as `host:port`. */
  address: string;
  /** Paths that the requests use in turn. */
  paths: readonly string[];
  body: string;
  /** Further header lines of every request. */
  headers: readonly string[];
  /** File with one further header line for each request, in order. All requests then differ. */
  headersFile?: string;
  /** Name of a header in which each request has its own id. */
  idHeader?: string;
  /** Status that every answer should have. Answers with another status count as refused. */
  status: number;
  connections: number;
  /** Number of calls sent before the measurement. They are among the counted answers, but not in the rate and latencies. */
  warmUp: number;
  calls: number;
};

export type LoadResult = {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** Number of answers with the wanted status, including the warm-up. */
  accepted: number;
  /** Number of other answers, by status. */
  refused: Readonly<Record<string, number>>;
  /** Number of requests whose connection ended before the answer. */
  unanswered: number;
};
