/** Unix milliseconds. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/**
 * By how much Redis' clock may be set back, or another server's that takes over from it may be behind. What must not be used again is
 * remembered for that much longer.
 */
export const CLOCK_CHANGE_MS = 10 * 60_000;

/** Milliseconds since an instant of `performance.now()`, with one decimal. */
export function msSince(startedAt: number): number {
  return Math.round((performance.now() - startedAt) * 10) / 10;
}

/** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    function onAbort(): void {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

export type Settled<Result> = { kind: "done"; result: Result } | { kind: "failed"; error: unknown };

/** The outcome of work with a deadline. If it is `late`, the work goes on, and its outcome is unknown. */
export type Outcome<Result> = Settled<Result> | { kind: "late" };

/** The outcome of work that ends in time by itself; never rejects. */
export function settled<Result>(work: Promise<Result>): Promise<Settled<Result>> {
  return work.then(
    (result) => ({ kind: "done", result }),
    (error: unknown) => ({ kind: "failed", error }),
  );
}

/** Waits for `work` at most `ms`; never rejects. */
export function within<Result>(ms: number, work: Promise<Result>): Promise<Outcome<Result>> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ kind: "late" }), Math.max(ms, 0));
    const settle = (outcome: Outcome<Result>): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    work.then(
      (result) => settle({ kind: "done", result }),
      (error: unknown) => settle({ kind: "failed", error }),
    );
  });
}
