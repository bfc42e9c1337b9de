import { AppError } from "../errors/app-error.ts";
import { toObject } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";

/** An entry as it was written (audit.ts); one of a later release as far as it can be read. */
type ReadEntry = {
  /** That of the stream: when it was written, and which of that ms. */
  id: string;
  /** Unix ms. */
  at: number;
  fields: Readonly<Record<string, string>>;
};

/** An entry matches if its fields are those that are given. The times are inclusive, unix ms. */
type Wanted = Readonly<Partial<Record<"action" | "by" | "call_id" | "job", string | undefined>>> & {
  since?: number | undefined;
  until?: number | undefined;
};

const READ_AT_ONCE = 500;
/** One page looks at no more entries than this, however few of them match. */
const LOOKED_AT_MAX = 10_000;
/**
 * Entries are in the order in which they were written, by Redis' clock. `at` is earlier, from before the action, and by the clock of whoever
 * acted: it may be ahead by so much, and its entries are found all the same.
 */
const CLOCKS_APART_MS = 3_600_000;
const ENTRY_ID = /^\d{1,16}-\d{1,16}$/;

/**
 * Reads what operators did, the newest first: up to `limit` entries that match, beyond the entry `after`. With `next` even a page without
 * entries is not the last.
 */
export function createReadAudit({ redis, keys }: Partition) {
  async function* newestFirst(after: string | undefined): AsyncGenerator<ReadEntry> {
    for (let last = after; ; ) {
      const end = last === undefined ? "+" : `(${last}`;
      const found = await redis.xrevrange(keys.audit, end, "-", "COUNT", READ_AT_ONCE);
      for (const [id, flat] of found) yield toEntry(id, flat);
      last = found.at(-1)?.[0];
      if (found.length < READ_AT_ONCE) return;
    }
  }

  return async function readAudit(
    { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY, ...wanted }: Wanted,
    { limit, after }: { limit: number; after?: string | undefined },
  ): Promise<{ entries: ReadEntry[]; next: string | undefined }> {
    requirePlace(after);
    const entries: ReadEntry[] = [];
    let [last, lookedAt] = [after, 0];
    for await (const entry of newestFirst(after)) {
      if (writtenAt(entry) < since - CLOCKS_APART_MS) return { entries, next: undefined };
      const isWanted = entry.at >= since && entry.at <= until && matches(entry, wanted);
      if ((isWanted && entries.length === limit) || lookedAt === LOOKED_AT_MAX)
        return { entries, next: last };
      if (isWanted) entries.push(entry);
      last = entry.id;
      lookedAt += 1;
    }
    return { entries, next: undefined };
  };
}

function requirePlace(after: string | undefined): void {
  if (after === undefined || ENTRY_ID.test(after)) return;
  throw AppError.public("request.malformed", "cursor: is not the `next` of an answer of this list");
}

function toEntry(id: string, flat: string[]): ReadEntry {
  const fields = toObject(flat);
  const at = Number(fields["at"]);
  return { id, at: Number.isFinite(at) ? at : writtenAt({ id }), fields };
}

function writtenAt({ id }: Pick<ReadEntry, "id">): number {
  return Number(id.split("-")[0]);
}

function matches({ fields }: ReadEntry, wanted: Omit<Wanted, "since" | "until">): boolean {
  return Object.entries(wanted).every(([name, value]) => value === undefined || fields[name] === value);
}
