import { redisClock } from "../redis/clock.ts";
import type { Partition } from "../redis/partition.ts";
import { isNewer } from "../redis/version.ts";
import type { Clock } from "../time/clock.ts";
import { bucketStart, STEPS, type Step } from "./buckets.ts";
import { type Counts, parseSubject, type Subject, toCounts } from "./counts.ts";
import { dayOf } from "./series.ts";

/** What was counted in a span of time, of each subject that had anything. */
export type Bucket = {
  /** When it begins, unix ms. */
  at: number;
  counted: readonly { subject: Subject; counts: Counts }[];
};

export type SeriesReading = {
  stepMs: number;
  /** Every bucket of the range, oldest first, also those in which nothing was counted. */
  buckets: Bucket[];
  /** Whether a later release has counted too, which this one cannot read. */
  isIncomplete: boolean;
};

/** What a job has brought in a token on a day (UTC). */
export type Earned = {
  day: string;
  network: string;
  asset: string;
  /** Undefined of the jobs that found no place. */
  job: string | undefined;
  payments: number;
  /** The smallest units of the token, exact. */
  amount: bigint;
};

export type ReadSeries = {
  /**
   * The buckets that hold the times from `since` to `until`, unix ms: at most those that are kept, the last hour of fine ones or the last
   * day of coarse ones, and all of them by default. Processes tell every ten seconds, so the last two fine ones may still grow.
   */
  buckets(step: Step, range?: { since?: number; until?: number }): Promise<SeriesReading>;
  /** What all processes together have counted in a range, one entry for each subject. */
  total(step: Step, range?: { since?: number; until?: number }): Promise<Omit<Bucket, "at">>;
  /** The last days, 90 at most, newest first. */
  earned(days: number): Promise<Earned[]>;
};

const AT_ONCE = 60;
const DAY_MS = 86_400_000;

export function createReadSeries(
  partition: Partition,
  clock: Clock = redisClock(partition.redis).now,
): ReadSeries {
  const { redis, keys } = partition;

  function startsIn(
    step: Step,
    { since = 0, until = clock() }: { since?: number; until?: number } = {},
  ): number[] {
    const { ms, keptMs } = STEPS[step];
    const last = bucketStart(step, Math.min(until, clock()));
    const first = Math.max(bucketStart(step, since), bucketStart(step, clock()) - keptMs + ms);
    return Array.from({ length: Math.max(0, (last - first) / ms + 1) }, (_, i) => first + i * ms);
  }

  /** The fields of each bucket; undefined of one of a later release. */
  async function* stored(step: Step, starts: readonly number[]) {
    for (let i = 0; i < starts.length; i += AT_ONCE) {
      const some = starts.slice(i, i + AT_ONCE);
      const found = await Promise.all(some.map((start) => redis.hgetall(keys.series(step, start))));
      for (const [at, { v, ...fields }] of found.entries())
        yield { at: some[at] as number, fields: isNewer("series", v) ? undefined : fields };
    }
  }

  return {
    async buckets(step, range) {
      const buckets: Bucket[] = [];
      let isIncomplete = false;
      for await (const { at, fields } of stored(step, startsIn(step, range))) {
        isIncomplete ||= fields === undefined;
        const counted = Object.entries(fields ?? {}).flatMap(([name, json]) => countedOf(name, [json]));
        buckets.push({ at, counted });
      }
      return { stepMs: STEPS[step].ms, buckets, isIncomplete };
    },

    async total(step, range) {
      const all = new Map<string, string[]>();
      for await (const { fields = {} } of stored(step, startsIn(step, range))) {
        for (const [name, json] of Object.entries(fields)) {
          const known = all.get(name);
          if (known === undefined) all.set(name, [json]);
          else known.push(json);
        }
      }
      return { counted: [...all].flatMap(([name, jsons]) => countedOf(name, jsons)) };
    },

    async earned(days) {
      const wanted = Array.from({ length: Math.min(days, 90) }, (_, i) => dayOf(clock() - i * DAY_MS));
      const found = await Promise.all(wanted.map((day) => redis.hgetall(keys.earned(day))));
      return found.flatMap(({ v, ...rows }, i) =>
        isNewer("series", v)
          ? []
          : Object.entries(rows).map(([name, text]) => toEarned(String(wanted[i]), name, text)),
      );
    },
  };
}

function countedOf(name: string, jsons: readonly string[]) {
  const subject = parseSubject(name);
  return subject === undefined ? [] : [{ subject, counts: toCounts(jsons) }];
}

function toEarned(day: string, name: string, text: string): Earned {
  const [network = "", asset = "", job] = name.split(" ");
  const [payments = "0", amount = "0"] = text.split(" ");
  return {
    ...{ day, network, asset },
    job: job === "*" ? undefined : job,
    payments: Number(payments),
    amount: BigInt(amount),
  };
}
