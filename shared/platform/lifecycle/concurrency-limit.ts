import { AppError, RETRY_AFTER_MS } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/codes.ts";

type Options = {
  max: number;
  /** Limit on the slots that one key, such as a client's address, may use. */
  perKeyMax?: number;
  /** Plural name of the limited things, for the log, such as "deliveries". */
  what: string;
  /** Code of the error that is thrown at the limit. */
  code: ErrorCode;
};

export type ConcurrencyLimit = {
  /**
   * Takes a slot. Returns a function that frees it; a second call does nothing. Throws if no slot is free for this key.
   * Without a key, only `max` applies.
   */
  enter(key?: string): () => void;
  /** Runs work in a slot without a key. */
  within<Result>(work: () => Promise<Result>): Promise<Result>;
};

/**
 * Limits concurrent work to `max` slots. Callers do not wait for a slot: if none is free, the caller gets an error and
 * may retry.
 */
export function createConcurrencyLimit({ max, perKeyMax = max, what, code }: Options): ConcurrencyLimit {
  const counts = new Map<string, number>();
  let used = 0;

  function add(key: string | undefined, more: 1 | -1): void {
    used += more;
    if (key === undefined) return;
    const own = (counts.get(key) ?? 0) + more;
    if (own === 0) counts.delete(key);
    else counts.set(key, own);
  }

  function assertFree(key: string | undefined): void {
    const isKeyFull = key !== undefined && (counts.get(key) ?? 0) >= perKeyMax;
    if (used < max && !isKeyFull) return;
    const reason = isKeyFull ? `${perKeyMax} ${what} of ${key}` : `${max} ${what}`;
    throw new AppError(code, { reason: `${reason} are in flight`, retryAfterMs: RETRY_AFTER_MS });
  }

  function enter(key?: string): () => void {
    assertFree(key);
    add(key, 1);
    let isHeld = true;
    return () => {
      if (isHeld) add(key, -1);
      isHeld = false;
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
