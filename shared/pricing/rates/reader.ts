import type { Clock } from "../../time/clock.ts";

export type ReadOptions = {
  clock: Clock;
  /** Time for one exchange with a source; a read ends after twice that at the latest, whoever else is slow. */
  timeoutMs: number;
  /** Certificates to trust instead of the system's, in PEM. */
  ca?: string | undefined;
};

/** Reads one source once: a rate as decimal text, or it throws `price.unavailable`. */
export type ReadRate = () => Promise<string>;
