import { AppError, RETRY_AFTER_MS } from "../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../shared/platform/errors/codes.ts";

type Options = {
  /** Maximum number of concurrent pieces of work. */
  max: number;
  /** Maximum number of pieces of work that may wait with the same key. */
  waitingMax: number;
  /** Maximum waiting time. */
  waitMs: number;
  /** Plural name of the limited work in error messages, such as "verifies". */
  what: string;
  /** Error code for work that gets no slot in time. */
  code: ErrorCode;
};

export type FairLimit = {
  /**
   * Runs the work in a slot, and waits for one if all are in use. Throws `request.rate_limited` if too much work with this key
   * waits already. Throws the `code` of the options if no slot becomes free in time.
   */
  within<Result>(key: string, work: () => Promise<Result>): Promise<Result>;
};

type Waiter = { enter: () => void };

/**
 * Creates a limit of `max` concurrent pieces of work. Further work waits. Free slots go to the waiting keys in turn, so a client with many
 * requests delays mostly itself.
 */
export function createFairLimit({ max, waitingMax, waitMs, what, code }: Options): FairLimit {
  let running = 0;
  /** Waiting work by key. The first key gets the next free slot, for its oldest work. Then it moves to the end. */
  const queues = new Map<string, Set<Waiter>>();

  function refusal(refusedWith: ErrorCode, reason: string): AppError {
    return new AppError(refusedWith, { reason, retryAfterMs: RETRY_AFTER_MS });
  }

  /** Passes the slot of work that has ended to the next waiting work. Frees the slot if none waits. */
  function releaseSlot(): void {
    const [next] = queues;
    if (next === undefined) {
      running -= 1;
      return;
    }
    const [key, queue] = next;
    const [waiter] = queue;
    queues.delete(key);
    if (waiter !== undefined) queue.delete(waiter);
    if (queue.size > 0) queues.set(key, queue);
    waiter?.enter();
  }

  function wait(key: string): Promise<void> {
    const queue = queues.get(key) ?? new Set();
    if (queue.size >= waitingMax)
      throw refusal("request.rate_limited", `${queue.size} ${what} of ${key} are already waiting`);
    return new Promise((resolve, reject) => {
      const waiter = {
        enter() {
          clearTimeout(timer);
          resolve();
        },
      };
      const timer = setTimeout(() => {
        queue.delete(waiter);
        if (queue.size === 0) queues.delete(key);
        reject(refusal(code, `${max} ${what} are in flight, and none ended within ${waitMs} ms`));
      }, waitMs);
      queues.set(key, queue.add(waiter));
    });
  }

  return {
    async within(key, work) {
      if (running < max) running += 1;
      else await wait(key);
      try {
        return await work();
      } finally {
        releaseSlot();
      }
    },
  };
}
