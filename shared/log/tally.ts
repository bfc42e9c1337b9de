const EVERY_MS = 1000;

/** Counts what anybody can cause often, and writes the count once a second: a line for each would let anybody fill the log. */
export type Tally = {
  count(amount: number): void;
  /** Writes what was counted and is not written yet. */
  flush(): void;
};

/** `write` gets how often something was counted, and the sum of the amounts. */
export function createTally(write: (times: number, sum: number) => void): Tally {
  let times = 0;
  let sum = 0;
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    if (times > 0) write(times, sum);
    times = 0;
    sum = 0;
  }

  return {
    count(amount) {
      times += 1;
      sum += amount;
      timer ??= setTimeout(flush, EVERY_MS);
    },
    flush,
  };
}
