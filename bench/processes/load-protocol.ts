export type LoadOptions = {
  /** `host:port`. */
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
  /** The status that every answer should have. */
  status: number;
  connections: number;
  /** Number of calls sent first, which are counted but not measured. */
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
