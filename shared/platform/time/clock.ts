/** Returns Unix milliseconds. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/**
 * Assumed maximum in ms by which Redis' clock can jump back. It jumps when it is adjusted, or at a failover to a server
 * whose clock is behind. So a value that must not be accepted twice, such as a nonce, is remembered for this much
 * longer than it is valid.
 */
export const CLOCK_CHANGE_MS = 10 * 60_000;

/** Returns the milliseconds since an instant of `performance.now()`, with one decimal. */
export function msSince(startedAt: number): number {
  return Math.round((performance.now() - startedAt) * 10) / 10;
}

/** Resolves after `ms`. Rejects with the signal's reason if it is aborted earlier. */
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

/** Outcome of work with a deadline. If it is `late`, the work is still running, and its outcome is unknown. */
export type Outcome<Result> = Settled<Result> | { kind: "late" };

/** Resolves with the outcome of work, without a deadline. It never rejects. */
export function settled<Result>(work: Promise<Result>): Promise<Settled<Result>> {
  return work.then(
    (result) => ({ kind: "done", result }),
    (error: unknown) => ({ kind: "failed", error }),
  );
}

/** Waits at most `ms` for `work`. It never rejects. */
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
