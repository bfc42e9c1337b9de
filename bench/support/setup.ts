export type Setup = {
  /** Fewer and shorter rounds, only to see whether the bench works. */
  quick: boolean;
  /** Number of rounds of a comparison. */
  rounds: number;
  /** Node's own arguments for the compared processes, e.g. for a profiler. */
  nodeArgs: readonly string[];
  /** Further rates at which `latency` is measured, in calls a second. */
  rates: readonly number[];
  /**
   * Folder of another, built clone. If set, `ingress`, `drain`, `challenge` and `paid` compare with its processes instead of
   * the hand-written baselines.
   */
  against: string | undefined;
};
