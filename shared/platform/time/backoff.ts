export type Backoff = {
  readonly baseMs: number;
  readonly capMs: number;
};

/**
 * Returns a delay by capped exponential backoff with full jitter: random between 0 and min(cap, base * 2^(attempt -
 * 1)).
 */
export function backoffMs({ baseMs, capMs }: Backoff, attempt: number, random: () => number): number {
  const ceiling = Math.min(capMs, baseMs * 2 ** Math.min(attempt - 1, 40));
  return Math.round(ceiling * random());
}
