/** How far the server's clock is ahead of the browser's. */
let aheadMs = 0;

/** The header has whole seconds, and an answer travels for a while. */
const INEXACT_MS = 2000;

/** Learns the server's time from the Date header of an answer that has just come. */
export function learnServerTime(date: string | null): void {
  const measured = Date.parse(date ?? "") + 500 - Date.now();
  if (Math.abs(measured - aheadMs) > INEXACT_MS) aheadMs = measured;
}

/** The server's time, unix ms. The service's times are compared with it: the browser's clock may be wrong by hours. */
export function serverTime(browserTime = Date.now()): number {
  return browserTime + aheadMs;
}
