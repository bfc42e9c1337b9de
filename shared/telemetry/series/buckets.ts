/*
 * Redis stores what all processes have counted, in buckets of time: fine buckets of 10 seconds and coarse ones of 5
 * minutes. Fine buckets are kept for 62 minutes, because the last hour is shown in whole clock minutes. Coarse buckets
 * are kept for a day. A bucket is a Redis hash with a field for each subject, such as a job. The value of the field is
 * a JSON object with the counts of the subject.
 *
 *   job:<origin>/<service id>/<job index>   results of the calls of a queue
 *   endpoint:<path>                         requests to a webhook endpoint
 *   process:<kind>                          number of reports of such processes: without a report, the counts of a bucket are unknown
 *   origin:<origin>                         refusals that belong to no endpoint; for x402, all refusals
 *
 * `CountName` and the declarations below it list the names of the counts. Some names have a detail after a colon. The
 * number of subjects in a bucket is limited. In a full bucket, further subjects are counted together in their group,
 * such as `job:webhook/*`.
 */

export const STEPS = {
  fine: { ms: 10_000, keptMs: 3_720_000 },
  coarse: { ms: 300_000, keptMs: 86_400_000 },
} as const;
export type Step = keyof typeof STEPS;

export const SUBJECTS_MAX = 200;

/** The names of counts. */
export type CountName =
  /** A new webhook whose call is stored and answered, or a new payment that is settled. */
  | "accepted"
  /** A repeat: a delivery or payment that the gateway had accepted before. */
  | "replayed"
  | "handshakes"
  /** A webhook that was answered with success but not queued, because the endpoint has no job for its event. */
  | "dropped"
  /** A request without a payment, which a payment gateway answered with 402. */
  | "challenged"
  | "injected";

/**
 * Names of counts that have a detail after a colon. The detail of `unauthorized` is the reason why a credential was
 * refused. That of the others is an error code.
 */
export type DetailedName = "refused" | "unauthorized" | "delayed" | "failed";

/**
 * Prefix of a name whose value is a time, not a count. After the prefix comes the reason why credentials were refused.
 * The value is the time of the newest refusal for this reason, unix ms. If values of several processes are combined,
 * the latest is kept.
 */
export const NEWEST = "newest:";

/**
 * Returns the group in which a subject is counted if its bucket is full: `job:webhook/*` for `job:webhook/7/1`. Returns
 * undefined for a subject that has no group, and is counted by itself even in a full bucket.
 */
export function groupOf(subject: string): string | undefined {
  const slash = subject.indexOf("/");
  return slash === -1 ? undefined : `${subject.slice(0, slash)}/*`;
}

/** Returns the start of the bucket that contains a time. */
export function bucketStart(step: Step, at: number): number {
  return at - (at % STEPS[step].ms);
}

/*
 * Durations are not stored one by one. Each is counted in a class, such as that from 1000 to 1400 ms. All processes use
 * the same classes, so their counts can be added. Class `k` begins at 2^(k/2) ms, and the last class has no upper
 * bound. `percentile` finds the class that contains a percentile, and estimates its position in the class. The relative
 * error is at most two fifths, and less than a fifth if the durations in the class are spread evenly.
 */

/** Number of the last class of durations, which begins at three years. */
export const LAST_CLASS = 73;

export function timeClass(ms: number): number {
  return ms <= 1 ? 0 : Math.min(LAST_CLASS, Math.floor(2 * Math.log2(ms)));
}

/** Prefix of the name of the count for one class of durations. The number of the class follows. */
export const TIME = "ms:";

/**
 * Prefix of the name of the count for one class of hold times. The hold time of a call is the time for which it could
 * not run, because its job was paused or because it had failed and was not replayed yet.
 */
export const HELD = "held:";

/** Number of durations, by class: class k has those from 2^(k/2) ms up to 2^((k+1)/2) ms. */
export type Times = ReadonlyMap<number, number>;

/**
 * Estimates a percentile in whole ms: the fraction `part` (0 to 1) of the durations is shorter. Undefined if there are
 * no durations.
 */
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
