import { useEffect, useRef } from "preact/hooks";
import type { Refused } from "./ask.ts";

const FIRST_MS = 1000;
export const RETRY_MS_MAX = 10_000;

/** Whether the same request may succeed later, because the console or its Redis was only unavailable or busy. */
export function isTransient({ status }: Refused): boolean {
  return status === 0 || status === 429 || status >= 500;
}

/**
 * Whether the console has certainly not carried out the request. After any other transient refusal it may have done so,
 * for example if only the answer was lost.
 */
export function isDefiniteRefusal({ status }: Refused): boolean {
  return status === 429 || status === 503;
}

/**
 * Calls `again` after a transient refusal. The pause grows from about one second to about ten, and is never shorter
 * than the `pauseMs` of the refusal. When the browser comes online again, calls `again` at once. A hidden page waits
 * until it is visible. Half of the pause is random, so that not all open pages send requests at the same moment when
 * the console is back.
 */
export function useRetry(
  refused: Refused | undefined,
  again: () => void,
  isRetried: (refused: Refused) => boolean = isTransient,
): void {
  const times = useRef(0);
  const newest = useRef(again);
  newest.current = again;
  useEffect(() => {
    times.current = refused === undefined ? 0 : times.current + 1;
    if (refused === undefined || !isRetried(refused)) return;
    const earliest = Date.now() + refused.pauseMs;
    const lookNow = (): void => {
      if (!document.hidden) newest.current();
    };
    const retry = (): void => {
      if (Date.now() >= earliest) lookNow();
    };
    const mostMs = Math.min(RETRY_MS_MAX, FIRST_MS * 2 ** (times.current - 1));
    const timer = setTimeout(retry, Math.max(mostMs * (0.5 + Math.random() / 2), refused.pauseMs));
    document.addEventListener("visibilitychange", retry);
    window.addEventListener("online", lookNow);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", retry);
      window.removeEventListener("online", lookNow);
    };
  }, [refused, isRetried]);
}
