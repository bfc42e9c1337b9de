export type Backoff = {
  readonly baseMs: number;
  readonly capMs: number;
};

/** Capped exponential backoff with full jitter: anything from 0 to min(cap, base * 2^(attempt - 1)). */
export function backoffMs({ baseMs, capMs }: Backoff, attempt: number, random: () => number): number {
  const ceiling = Math.min(capMs, baseMs * 2 ** Math.min(attempt - 1, 40));
  return Math.round(ceiling * random());
}
