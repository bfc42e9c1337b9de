/** How far the server's clock is ahead of the browser's. */
let aheadMs = 0;

/** Smaller changes of `aheadMs` are ignored: the Date header has whole seconds, and an answer takes time to arrive. */
const INEXACT_MS = 2000;

/** Learns the server's time from the Date header of an answer that has just come. */
export function learnServerTime(date: string | null): void {
  const measured = Date.parse(date ?? "") + 500 - Date.now();
  if (Math.abs(measured - aheadMs) > INEXACT_MS) aheadMs = measured;
}

/**
 * Returns the server's time, in unix ms. The page compares the service's times with this one, because the browser's
 * clock may be wrong by hours.
 */
export function serverTime(browserTime = Date.now()): number {
  return browserTime + aheadMs;
}
