import { AppError } from "../../platform/errors/app-error.ts";
import { readIn } from "../merge.ts";
import { mergePages, toObject } from "../pages.ts";
import type { Partition, Partitions } from "../partition.ts";
import { ACTIONS, type AuditStream, isAuditAction } from "./actions.ts";

/** A line of the audit log as it was written (audit.ts). */
type ReadEntry = {
  /**
   * `<ms>-<number>.<place>`, and then `.<partition>` unless the partition is 0. `<ms>-<number>` is the id in the Redis
   * stream: `ms` is the time of the write, and `number` distinguishes lines of the same ms.
   */
  id: string;
  stream: AuditStream;
  /** Unix ms. */
  at: number;
  fields: Readonly<Record<string, string>>;
};

/** Selects lines that have all the given fields. The times are inclusive, unix ms. */
type Wanted = Readonly<Partial<Record<"action" | "by" | "call_id" | "job" | "run", string | undefined>>> & {
  /** Default: acts and money, or the stream of the given action. */
  stream?: AuditStream | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/**
 * Names of the Redis streams that hold the lines. Lines with the same ms and number are sorted by partition, then in this
 * order of the streams.
 */
const PLACES = ["acts", "repeats", "money", "reads"] as const;
type Place = (typeof PLACES)[number];

const STREAM_OF = { acts: "acts", repeats: "acts", money: "money", reads: "reads" } as const;

const READ_AT_ONCE = 500;
/** Maximum number of lines that are read for one page, even if few or none of them match. */
const READ_MAX = 10_000;
/**
 * Maximum difference between a line's `at` and the time of its write. Lines are sorted by the time of the write, by Redis'
 * clock. But `since` and `until` are compared with `at`, which is the time before the action by the acting process's clock.
 */
const CLOCKS_APART_MS = 3_600_000;
const ENTRY_ID = /^(\d{1,16})-(\d{1,16})\.(acts|repeats|money|reads)(?:\.([1-9]\d?))?$/;

/**
 * Creates the function that reads a page of the audit log, from all partitions and all selected streams. It resolves with up
 * to `limit` matching lines, newest first, that are older than the line with the id `after`. If the page has `next`, further
 * pages follow, even if this one is empty.
 */
export function createReadAudit(partitions: Partitions) {
  async function* newestIn(
    { redis, keys, index }: Partition,
    place: Place,
    after: string | undefined,
  ): AsyncGenerator<ReadEntry[]> {
    for (let end = endBeyond(index, place, after); ; ) {
      const found = await redis.xrevrange(keys.audit(place), end, "-", "COUNT", READ_AT_ONCE);
      const last = found.at(-1)?.[0];
      if (last === undefined) return;
      yield found.map(([id, flat]) => toEntry(id, { index, place }, flat));
      if (found.length < READ_AT_ONCE) return;
      end = `(${last}`;
    }
  }

  async function* newestFirst(
    wanted: readonly Partition[],
    places: readonly Place[],
    after: string | undefined,
  ): AsyncGenerator<ReadEntry> {
    const sources = wanted.flatMap((partition) =>
      places.map((place) => readIn(partitions, partition.index, newestIn(partition, place, after))),
    );
    for await (const page of mergePages(sources, isNewer, READ_AT_ONCE)) yield* page;
  }

  return async function readAudit(
    { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY, stream, ...wanted }: Wanted,
    { limit, after }: { limit: number; after?: string | undefined },
  ): Promise<{ entries: ReadEntry[]; next: string | undefined }> {
    requirePlace(after);
    const places = placesOf(stream, wanted.action);
    const holding = partitionsWith(partitions, wanted.call_id);
    const entries: ReadEntry[] = [];
    let [last, lookedAt] = [after, 0];
    for await (const entry of newestFirst(holding, places, after)) {
      if (writtenAt(entry) < since - CLOCKS_APART_MS) return { entries, next: undefined };
      const isWanted = entry.at >= since && entry.at <= until && matches(entry, wanted);
      if ((isWanted && entries.length === limit) || lookedAt === READ_MAX) return { entries, next: last };
      if (isWanted) entries.push(entry);
      last = entry.id;
      lookedAt += 1;
    }
    return { entries, next: undefined };
  };
}

function placesOf(stream: AuditStream | undefined, action = ""): readonly Place[] {
  const wanted = stream ?? (isAuditAction(action) ? ACTIONS[action].stream : undefined);
  return PLACES.filter((place) =>
    wanted === undefined ? STREAM_OF[place] !== "reads" : STREAM_OF[place] === wanted,
  );
}

/**
 * Returns the partitions that may have lines about this call: that of the call, and partition 0. Without a call, returns all
 * partitions.
 */
function partitionsWith(partitions: Partitions, callId: string | undefined): readonly Partition[] {
  return callId === undefined ? partitions.all : [...new Set([partitions.control, partitions.of(callId)])];
}

function requirePlace(after: string | undefined): void {
  if (after === undefined || ENTRY_ID.test(after)) return;
  throw AppError.public("request.malformed", "cursor: must be the `next` of an answer of this list");
}

/**
 * Returns the id at which XREVRANGE must begin in this stream, to continue after the line `after`, which may be in any
 * stream.
 */
function endBeyond(index: number, place: Place, after: string | undefined): string {
  if (after === undefined) return "+";
  const [id = "", own, partition = "0"] = after.split(".");
  const rank = index - Number(partition) || PLACES.indexOf(place) - PLACES.indexOf(own as Place);
  return rank > 0 ? id : `(${id}`;
}

/** Returns whether a line is listed before another one. */
function isNewer(a: ReadEntry, b: ReadEntry): boolean {
  const [[aMs = 0, aNumber = 0], [bMs = 0, bNumber = 0]] = [numbersOf(a), numbersOf(b)];
  return aMs > bMs || (aMs === bMs && aNumber > bNumber);
}

function numbersOf({ id }: Pick<ReadEntry, "id">): number[] {
  return (ENTRY_ID.exec(id) ?? []).slice(1, 3).map(Number);
}

function toEntry(id: string, { index, place }: { index: number; place: Place }, flat: string[]): ReadEntry {
  const fields = toObject(flat);
  const at = Number(fields["at"]);
  const own = { id: `${id}.${place}${index === 0 ? "" : `.${index}`}`, stream: STREAM_OF[place], fields };
  return { ...own, at: Number.isFinite(at) ? at : writtenAt(own) };
}

function writtenAt(entry: Pick<ReadEntry, "id">): number {
  return numbersOf(entry)[0] ?? 0;
}

function matches({ fields }: ReadEntry, wanted: Omit<Wanted, "since" | "until" | "stream">): boolean {
  return Object.entries(wanted).every(([name, value]) => value === undefined || fields[name] === value);
}
