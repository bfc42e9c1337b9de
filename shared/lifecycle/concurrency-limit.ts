import { AppError } from "../errors/app-error.ts";

type Options = {
  max: number;
  /** Of what there is a limit, as the log is to say it. */
  what: string;
  code?: "payment.unavailable" | "caller.check_unavailable";
};

export type ConcurrencyLimit = {
  /** Takes a place, until what is returned is called (again is nothing). Throws, retryable, where no place is free. */
  enter(): () => void;
  /** Does this in a place. */
  within<Result>(work: () => Promise<Result>): Promise<Result>;
};

const RETRY_AFTER_MS = 2000;

/** How many may do something at once; nobody waits for a place. */
export function createConcurrencyLimit({
  max,
  what,
  code = "payment.unavailable",
}: Options): ConcurrencyLimit {
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
