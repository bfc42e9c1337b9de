import { AppError, RETRY_AFTER_MS } from "../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../shared/platform/errors/codes.ts";

type Options = {
  /** How many are inside at once. */
  max: number;
  /** How many of one party may wait. */
  waitingMax: number;
  /** How long anybody waits. */
  waitMs: number;
  /** What is limited, as the log names it: "verifies". */
  what: string;
  /** What is thrown if no place gets free in time. */
  code: ErrorCode;
};

export type FairLimit = {
  /**
   * Takes a place for as long as this work runs, and waits for it if there is none. Throws `request.rate_limited` if too many
   * of this party wait already, and the limit's own code if the wait takes too long.
   */
  within<Result>(party: string, work: () => Promise<Result>): Promise<Result>;
};

type Waiter = { enter: () => void };

/**
 * Lets at most `max` do something at once. The others wait, and the parties that wait take turns: whoever sends most waits
 * longest, and takes nobody else's place.
 */
export function createFairLimit({ max, waitingMax, waitMs, what, code }: Options): FairLimit {
  let inside = 0;
  /** Those who wait, the longest first, by party; the party whose turn is next is the first. */
  const lines = new Map<string, Set<Waiter>>();

  function refusal(refusedWith: ErrorCode, reason: string): AppError {
    return new AppError(refusedWith, { reason, retryAfterMs: RETRY_AFTER_MS });
  }

  /** The place that is given up here is the next one's. */
  function leave(): void {
    const [next] = lines;
    if (next === undefined) {
      inside -= 1;
      return;
    }
    const [party, line] = next;
    const [waiter] = line;
    lines.delete(party);
    if (waiter !== undefined) line.delete(waiter);
    if (line.size > 0) lines.set(party, line);
    waiter?.enter();
  }

  function wait(party: string): Promise<void> {
    const line = lines.get(party) ?? new Set();
    if (line.size >= waitingMax)
      throw refusal("request.rate_limited", `${line.size} ${what} of ${party} are already waiting`);
    return new Promise((resolve, reject) => {
      const waiter = {
        enter() {
          clearTimeout(timer);
          resolve();
        },
      };
      const timer = setTimeout(() => {
        line.delete(waiter);
        if (line.size === 0) lines.delete(party);
        reject(refusal(code, `${max} ${what} are in flight, and none ended within ${waitMs} ms`));
      }, waitMs);
      lines.set(party, line.add(waiter));
    });
  }

  return {
    async within(party, work) {
      if (inside < max) inside += 1;
      else await wait(party);
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
}
