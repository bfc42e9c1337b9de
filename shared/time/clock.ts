/** Unix milliseconds. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

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

/** The outcome of work with a deadline. */
export type Outcome<Result> =
  | { kind: "done"; result: Result }
  | { kind: "failed"; error: unknown }
  /** The work goes on, and its outcome is unknown. */
  | { kind: "late" };

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
