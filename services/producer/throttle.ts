import type { AppError } from "../../shared/errors/app-error.ts";

/** So many different calls in a row answered 429 mean that the runner as a whole is full. */
const CALLS_IN_A_ROW = 3;
const PAUSE_MS_DEFAULT = 1000;
const PAUSE_MS_MAX = 30_000;

export type Throttle = {
  succeeded(): void;
  failed(callId: string, error: AppError): void;
};

/**
 * One call answered 429 delays that call; only when different calls in a row are, the queue as a whole waits
 * (`pauseFor`), as long as the runner asked, at most half a minute at a time.
 */
export function createThrottle(pauseFor: (ms: number) => Promise<void>): Throttle {
  const refused = new Set<string>();
  let pausing = false;
  return {
    succeeded: () => refused.clear(),
    failed(callId, error) {
      if (error.code !== "runner.throttled") return refused.clear();
      refused.add(callId);
      if (pausing || refused.size < CALLS_IN_A_ROW) return;
      refused.clear();
      pausing = true;
      void pauseFor(Math.min(error.retryAfterMs ?? PAUSE_MS_DEFAULT, PAUSE_MS_MAX)).finally(() => {
        pausing = false;
      });
    },
  };
}
