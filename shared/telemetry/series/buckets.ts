/*
 * What processes count is kept in buckets of time: fine ones for 62 minutes, since the last hour is shown in minutes of the clock, and
 * coarse ones for a day. A bucket is a hash of subjects.
 * A subject has a field, and its value is a JSON object of counts.
 *
 *   job:<origin>/<service id>/<job index>   what became of the calls of a queue
 *   endpoint:<path>                         what came to a webhook endpoint
 *   process:<kind>                          how often such processes reported: in a bucket without a report the counts are unknown
 *   origin:<origin>                         what was refused of it and belongs to no endpoint; of what is sold, all that was refused
 *
 * The names of the counts are those below; some have a detail behind a colon. A bucket holds so many subjects; what is above is counted
 * under its group, as `job:webhook/*`.
 */

export const STEPS = {
  fine: { ms: 10_000, keptMs: 3_720_000 },
  coarse: { ms: 300_000, keptMs: 86_400_000 },
} as const;
export type Step = keyof typeof STEPS;

export const SUBJECTS_MAX = 200;

/** The names of counts. */
export type CountName =
  /** A new call is on disk, and its sender or payer is told so. */
  | "accepted"
  /** A delivery or a payment that was known before. */
  | "replayed"
  | "handshakes"
  /** An event for which an endpoint has no job. */
  | "dropped"
  /** A request that was told to pay. */
  | "challenged"
  | "injected";

/** Those with a detail: an error code, or the reason of a refused credential. */
export type DetailedName = "refused" | "unauthorized" | "delayed" | "failed";

/** In the name of a time before the reason of a refused credential: when the newest came, unix ms. Of several the latest holds. */
export const NEWEST = "newest:";

/** Under which the subjects of a group are counted that found no place. Undefined if the subject always has one. */
export function othersOf(subject: string): string | undefined {
  const slash = subject.indexOf("/");
  return slash === -1 ? undefined : `${subject.slice(0, slash)}/*`;
}

/** The start of the bucket that a time is in. */
export function bucketStart(step: Step, at: number): number {
  return at - (at % STEPS[step].ms);
}

/*
 * Times are counted in classes whose bounds are the same everywhere, so that those of several processes add up: class `k` begins at
 * 2^(k/2) ms, and the last has no end. A percentile is between the bounds of its class: it is off by
 * two fifths at worst, and by less than a fifth if times are spread evenly.
 */

/** The last class begins at three years. */
export const LAST_CLASS = 73;

export function timeClass(ms: number): number {
  return ms <= 1 ? 0 : Math.min(LAST_CLASS, Math.floor(2 * Math.log2(ms)));
}

/** In the count's name before its class. */
export const TIME = "ms:";

/** In the count's name before the class of the time that a call was held back: its job was paused, or it had failed. */
export const HELD = "held:";

/** How many times there are of each class. */
export type Times = ReadonlyMap<number, number>;

/** Estimates the time, in whole ms, below which this part of all times is; undefined if there is none. */
export function percentile(times: Times, part: number): number | undefined {
  const total = [...times.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let below = 0;
  let last = 0;
  for (const [k, count] of [...times].sort(([a], [b]) => a - b)) {
    if (below + count >= part * total) return estimate(2 ** ((k + (part * total - below) / count) / 2));
    below += count;
    last = k;
  }
  return estimate(2 ** ((last + 1) / 2));
}

/** Keeps two digits, which is as exact as a class. */
function estimate(ms: number): number {
  return Math.round(Number(ms.toPrecision(2)));
}
