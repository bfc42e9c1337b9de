import type { Clock } from "../../platform/time/clock.ts";
import { redisClock } from "../../redis/clock.ts";
import type { Partition } from "../../redis/partition.ts";
import { bucketStart, STEPS, type Step } from "./buckets.ts";
import { type Counts, parseSubject, type Subject, toCounts } from "./counts.ts";
import { dayOf, rowOf } from "./series.ts";

/** Counts of one span of time: one entry for each subject that has counts in it. */
export type Bucket = {
  /** Start of the span, unix ms. */
  at: number;
  /** False if no process has reported in the span, so that its counts are unknown and not 0. */
  isKnown: boolean;
  counted: readonly { subject: Subject; counts: Counts }[];
};

export type SeriesReading = {
  stepMs: number;
  /** Every bucket of the range, oldest first, including empty ones. */
  buckets: Bucket[];
};

/**
 * Numbers and amounts of the payments, disputed payments and refunds for one job in one token on one day (UTC). Amounts
 * are exact, in the token's smallest units.
 */
export type Earned = {
  day: string;
  network: string;
  asset: string;
  /** Undefined for a row that counts several jobs together. It is used when the day has the maximum number of rows. */
  job: string | undefined;
  payments: number;
  amount: bigint;
  /** Number of payments in this row that the chain contradicts, including those that an operator has acknowledged. */
  disputes: number;
  disputed: bigint;
  /** Number of refunds that Postern found on the chain on this day. Their payments may be from earlier days. */
  refunds: number;
  refunded: bigint;
};

export type ReadSeries = {
  /**
   * Reads the buckets from `since` to `until` (unix ms), by default all kept buckets. The last two fine buckets may
   * still grow, because processes report every ten seconds.
   */
  buckets(step: Step, range?: { since?: number; until?: number }): Promise<SeriesReading>;
  /** Adds up the counts of all buckets in a range. Returns one entry for each subject. */
  total(step: Step, range?: { since?: number; until?: number }): Promise<Pick<Bucket, "counted">>;
  /** Reads the earnings of the last `days` days, at most 90, newest first. */
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

  /** Reads the fields of each bucket. */
  async function* stored(step: Step, starts: readonly number[]) {
    for (let i = 0; i < starts.length; i += AT_ONCE) {
      const some = starts.slice(i, i + AT_ONCE);
      const found = await Promise.all(some.map((start) => redis.hgetall(keys.series(step, start))));
      for (const [at, fields] of found.entries()) yield { at: some[at] as number, fields };
    }
  }

  return {
    async buckets(step, range) {
      const buckets: Bucket[] = [];
      for await (const { at, fields } of stored(step, startsIn(step, range))) {
        const counted = Object.entries(fields).flatMap(([name, json]) => countedOf(name, [json]));
        buckets.push({ at, isKnown: Object.keys(fields).length > 0, counted });
      }
      return { stepMs: STEPS[step].ms, buckets };
    },

    async total(step, range) {
      const all = new Map<string, string[]>();
      for await (const { fields } of stored(step, startsIn(step, range))) {
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
      const amounts = (keyOf: (day: string) => string) =>
        Promise.all(wanted.map(async (day) => toAmounts(await redis.hgetall(keyOf(day)))));
      const [earned, disputed, refunded] = await Promise.all([
        amounts(keys.earned),
        amounts(keys.disputed),
        amounts(keys.refunded),
      ]);
      return wanted.flatMap((day, i) => toEarned(day, [earned[i], disputed[i], refunded[i]]));
    },
  };
}

/** Adds up entries with the same day, token and job, newest day first. */
export function sumOfEarned(all: readonly Earned[]): Earned[] {
  const sums = new Map<string, Earned>();
  for (const each of all) {
    const { day, network, asset, job = "*" } = each;
    const row = `${day} ${rowOf({ network, asset, job })}`;
    const sum = sums.get(row);
    sums.set(row, sum === undefined ? each : { ...each, ...added(sum, each) });
  }
  return [...sums.values()].sort((a, b) => (a.day < b.day ? 1 : -1) * Number(a.day !== b.day));
}

function added(a: Earned, b: Earned) {
  return {
    payments: a.payments + b.payments,
    amount: a.amount + b.amount,
    disputes: a.disputes + b.disputes,
    disputed: a.disputed + b.disputed,
    refunds: a.refunds + b.refunds,
    refunded: a.refunded + b.refunded,
  };
}

function countedOf(name: string, jsons: readonly string[]) {
  const subject = parseSubject(name);
  return subject === undefined ? [] : [{ subject, counts: toCounts(jsons) }];
}

type Amounts = ReadonlyMap<string, { count: number; amount: bigint }>;

const NONE = { count: 0, amount: 0n };

/** Parses the stored rows of one day. The keys of the result are the names of the rows (`rowOf`). */
function toAmounts(rows: Record<string, string>): Amounts {
  return new Map(
    Object.entries(rows).map(([name, text]) => {
      const [count = "0", amount = "0"] = text.split(" ");
      return [name, { count: Number(count), amount: BigInt(amount) }];
    }),
  );
}

/** Makes the rows of a day from its payments, disputed payments and refunds, which Redis stores under three keys. */
function toEarned(day: string, amounts: readonly (Amounts | undefined)[]): Earned[] {
  const names = new Set(amounts.flatMap((each) => [...(each?.keys() ?? [])]));
  return [...names].map((name) => {
    const [network = "", asset = "", job] = name.split(" ");
    const [paid = NONE, contradicted = NONE, back = NONE] = amounts.map((each) => each?.get(name));
    return {
      day,
      network,
      asset,
      job: job === "*" ? undefined : job,
      payments: paid.count,
      amount: paid.amount,
      disputes: contradicted.count,
      disputed: contradicted.amount,
      refunds: back.count,
      refunded: back.amount,
    };
  });
}
