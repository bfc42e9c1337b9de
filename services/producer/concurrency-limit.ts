/** Lets at most `count` callers do something at once; the others wait for their turn, in order. */
export function createConcurrencyLimit(count: number) {
  let free = count;
  const waiting: (() => void)[] = [];

  return async function withinLimit<Result>(work: () => Promise<Result>): Promise<Result> {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}

export type ConcurrencyLimit = ReturnType<typeof createConcurrencyLimit>;
