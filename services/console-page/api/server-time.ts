/** How far the clock of the console's machine is ahead of the browser's, in ms. */
let aheadMs = 0;

/**
 * Smaller changes of `aheadMs` are ignored. They are errors of the measurement: the Date header has only whole seconds,
 * and an answer takes time to arrive.
 */
const INEXACT_MS = 2000;

/** Compares the browser's clock with the Date header of an answer that has just arrived, and stores the difference. */
export function learnServerTime(date: string | null): void {
  const measured = Date.parse(date ?? "") + 500 - Date.now();
  if (Math.abs(measured - aheadMs) > INEXACT_MS) aheadMs = measured;
}

/**
 * Returns the time by the clock of the console's machine, in unix ms. The page uses it to show how long ago an event
 * was, because the browser's clock may be wrong by hours.
 */
export function serverTime(browserTime = Date.now()): number {
  return browserTime + aheadMs;
}
