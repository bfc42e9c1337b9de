import { AppError } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/codes.ts";

type Options = {
  max: number;
  /** What is limited, as the log names it: "verifies". */
  what: string;
  /** What a caller is refused with when the limit is reached. */
  code: ErrorCode;
};

export type ConcurrencyLimit = {
  /** Takes a place and returns what gives it back; giving it back twice does nothing. Throws if no place is free. */
  enter(): () => void;
  /** Takes a place for as long as this work runs. Throws if no place is free. */
  within<Result>(work: () => Promise<Result>): Promise<Result>;
};

const RETRY_AFTER_MS = 2000;

/** Lets at most `max` callers do something at once. Nobody waits for a place: the others are told to come back. */
export function createConcurrencyLimit({ max, what, code }: Options): ConcurrencyLimit {
  let inside = 0;

  function enter(): () => void {
    if (inside >= max)
      throw new AppError(code, { reason: `${max} ${what} are under way`, retryAfterMs: RETRY_AFTER_MS });
    inside += 1;
    let isInside = true;
    return () => {
      if (isInside) inside -= 1;
      isInside = false;
    };
  }

  return {
    enter,
    async within(work) {
      const leave = enter();
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
}
