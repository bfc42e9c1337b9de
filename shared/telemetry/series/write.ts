import type { Keys } from "../../redis/keys.ts";
import { bucketStart, NEWEST, STEPS, SUBJECTS_MAX } from "./buckets.ts";
import type { Counted } from "./series.ts";

/** Retention time of the earnings of a day. */
export const EARNED_KEPT_MS = 90 * 86_400_000;

/**
 * Time after which Redis deletes a bucket. It is longer than `keptMs`, so that every bucket that `read.ts` may read
 * still exists.
 */
const ttl = ({ ms, keptMs }: { ms: number; keptMs: number }) => keptMs + 2 * ms;

/** Constants that the Lua scripts add-counted.lua and add-amounts.lua use. */
export const SERIES = {
  subjectsMax: SUBJECTS_MAX,
  newest: NEWEST,
  fineMs: ttl(STEPS.fine),
  coarseMs: ttl(STEPS.coarse),
  earnedKeptMs: EARNED_KEPT_MS,
};

/**
 * Maximum number of subjects or rows in a batch. Redis needs half a millisecond to add a batch of this size, and does
 * nothing else during that time.
 */
const BATCH_MAX = 50;

export type Batch = { counts: readonly string[]; batch: string };

/**
 * Encodes counts for add-counted.lua, in batches of limited size. A batch has the Redis keys that it changes, and JSON
 * with the counts. The JSON names each key by its position in the list of keys.
 */
export function toBatches({ buckets, earned }: Counted, keys: Keys): Batch[] {
  const subjects = [...buckets].flatMap(([start, counts]) =>
    [...counts].map(([subject, added]) => ({ start, subject, added })),
  );
  const rows = [...earned].flatMap(([day, ofDay]) => [...ofDay].map(([row, added]) => ({ day, row, added })));
  return [
    ...inChunks(subjects).map((some) => toBatch(keys, { subjects: some, rows: [] })),
    ...inChunks(rows).map((some) => toBatch(keys, { subjects: [], rows: some })),
  ];
}

function inChunks<Item>(items: readonly Item[]): Item[][] {
  const count = Math.ceil(items.length / BATCH_MAX);
  return Array.from({ length: count }, (_, i) => items.slice(i * BATCH_MAX, (i + 1) * BATCH_MAX));
}

type Chunk = {
  subjects: readonly { start: number; subject: string; added: object }[];
  rows: readonly { day: string; row: string; added: { payments: number; amount: bigint } }[];
};

function toBatch(keys: Keys, { subjects, rows }: Chunk): Batch {
  const touched: string[] = [];
  const placeOf = (key: string): number => touched.push(key) - 1;
  const starts = new Set(subjects.map(({ start }) => start));
  const days = new Set(rows.map(({ day }) => day));
  const batch = {
    buckets: [...starts].map((start) => ({
      fine: placeOf(keys.series("fine", start)),
      coarse: placeOf(keys.series("coarse", bucketStart("coarse", start))),
      subjects: Object.fromEntries(
        subjects.flatMap((each) => (each.start === start ? [[each.subject, each.added]] : [])),
      ),
    })),
    days: [...days].map((day) => ({
      key: placeOf(keys.earned(day)),
      rows: Object.fromEntries(
        rows.flatMap(({ added, ...each }) =>
          each.day === day ? [[each.row, [String(added.payments), String(added.amount)]]] : [],
        ),
      ),
    })),
  };
  return { counts: touched, batch: JSON.stringify(batch) };
}
