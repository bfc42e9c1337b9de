export type Setup = {
  /** Whether rounds are fewer and shorter. This only shows whether the bench works. */
  quick: boolean;
  /** Number of rounds of a comparison. */
  rounds: number;
  /** Arguments of Node itself for the compared processes, for example those of its profiler. */
  nodeArgs: readonly string[];
  /** Further rates at which `latency` is measured, in calls a second. */
  rates: readonly number[];
  /**
   * Folder of another, built clone. If set, `ingress`, `drain`, `challenge` and `paid` compare with its processes instead of
   * the hand-written baselines.
   */
  against: string | undefined;
};
