/*
 * Counts of processes are stored in buckets of time. Fine buckets are kept for 62 minutes, because the last hour is shown in
 * whole clock minutes. Coarse buckets are kept for a day. A bucket is a hash with a field for each subject. The value is a
 * JSON object of counts.
 *
 *   job:<origin>/<service id>/<job index>   results of the calls of a queue
 *   endpoint:<path>                         requests to a webhook endpoint
 *   process:<kind>                          number of reports of such processes: without a report, the counts of a bucket are unknown
 *   origin:<origin>                         refusals that belong to no endpoint; for x402, all refusals
 *
 * The names of the counts are listed below; some have a detail after a colon. The number of subjects in a bucket is limited.
 * Above the limit, subjects are counted together under their group, such as `job:webhook/*`.
 */

export const STEPS = {
  fine: { ms: 10_000, keptMs: 3_720_000 },
  coarse: { ms: 300_000, keptMs: 86_400_000 },
} as const;
export type Step = keyof typeof STEPS;

export const SUBJECTS_MAX = 200;

/** The names of counts. */
export type CountName =
  /** A new call is on disk, and its sender or payer has got the answer. */
  | "accepted"
  /** A delivery or a payment that was known before. */
  | "replayed"
  | "handshakes"
  /** An event for which an endpoint has no job. */
  | "dropped"
  /** A request that was answered with 402. */
  | "challenged"
  | "injected";

/** Names of counts with a detail: an error code, or the reason of a refused credential. */
export type DetailedName = "refused" | "unauthorized" | "delayed" | "failed";

/**
 * Prefix of a name whose value is a time, not a count. The reason why credentials were refused follows the prefix. The
 * value is the time of the newest such refusal, unix ms. Of several values, only the maximum is kept.
 */
export const NEWEST = "newest:";

/**
 * Returns the group under which a subject is counted if its bucket is full: `job:webhook/*` for `job:webhook/7/1`. Returns
 * undefined if the subject is always counted by itself.
 */
export function groupOf(subject: string): string | undefined {
  const slash = subject.indexOf("/");
  return slash === -1 ? undefined : `${subject.slice(0, slash)}/*`;
}

/** Returns the start of the bucket of a time. */
export function bucketStart(step: Step, at: number): number {
  return at - (at % STEPS[step].ms);
}

/*
 * Durations are counted in classes with fixed bounds, so that the counts of several processes can be added. Class `k` begins
 * at 2^(k/2) ms, and the last class is unbounded. A percentile is estimated within its class. The relative error is at most
 * two fifths, and less than a fifth if the durations are spread evenly.
 */

/** Number of the last class of durations, which begins at three years. */
export const LAST_CLASS = 73;

export function timeClass(ms: number): number {
  return ms <= 1 ? 0 : Math.min(LAST_CLASS, Math.floor(2 * Math.log2(ms)));
}

/** Prefix of the name under which the durations of one class are counted. */
export const TIME = "ms:";

/**
 * Prefix of the name under which the hold times of one class are counted. The hold time of a call is the time for which its
 * job was paused, or the call had failed.
 */
export const HELD = "held:";

/** Number of durations, by class: class k has those from 2^(k/2) ms up to 2^((k+1)/2) ms. */
export type Times = ReadonlyMap<number, number>;

/** Estimates a percentile in whole ms: `part` (0 to 1) of the durations are shorter. Undefined without durations. */
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

/** Rounds to two significant digits, because the classes of durations are not more precise. */
function estimate(ms: number): number {
  return Math.round(Number(ms.toPrecision(2)));
}
