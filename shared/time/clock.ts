/** Unix milliseconds. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/** By how much the clocks of two replicas may differ. What must not be used again is remembered for that much longer. */
export const REPLICA_CLOCK_SKEW_MS = 10 * 60_000;

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
