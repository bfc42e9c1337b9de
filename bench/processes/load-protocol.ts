export type LoadOptions = {
  /** `host:port`. */
  address: string;
  /** One request after the other goes to the next of them, round and round. */
  paths: readonly string[];
  body: string;
  /** Further header lines of every request. */
  headers: readonly string[];
  /** A file with one more header line for each request, in their order: no two requests are the same then. */
  headersFile?: string;
  /** A header in which each request has an id of its own. */
  idHeader?: string;
  /** The status that every answer should have. */
  status: number;
  connections: number;
  /** So many calls first, which are counted but not measured. */
  warmUp: number;
  calls: number;
};

export type LoadResult = {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** Answers with the wanted status, the warm-up included. */
  accepted: number;
  /** Other answers, by status. */
  refused: Readonly<Record<string, number>>;
  /** Sent, but the connection ended before the answer. */
  unanswered: number;
};
