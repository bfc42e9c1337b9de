export type Setup = {
  /** Fewer and shorter rounds: to see that it works, not to judge by. */
  quick: boolean;
  /** Rounds of a comparison. */
  rounds: number;
  /** Node's own arguments for the processes that are compared, e.g. a profiler's. */
  nodeArgs: readonly string[];
  /** Calls a second at which `latency` is measured too. */
  rates: readonly number[];
  /** The folder of another clone, built: the parts that have a baseline of the same work compare with its services in place of the baselines. */
  against: string | undefined;
};
