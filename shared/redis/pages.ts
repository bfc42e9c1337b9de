import type { Redis } from "./connect.ts";
import { defineScript } from "./define-script.ts";
import pageOfScoredLua from "./page-of-scored.lua";
import { list, text } from "./reply.ts";

export type Scored = { member: string; score: number };

/** Parses the reply of a command WITHSCORES, in which members and scores alternate. */
export function toScored(reply: readonly string[]): Scored[] {
  const pairs: Scored[] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) {
    pairs.push({ member: String(reply[i]), score: Number(reply[i + 1]) });
  }
  return pairs;
}

function toBound(score: number): number | string {
  return Number.isFinite(score) ? score : `${score < 0 ? "-" : "+"}inf`;
}

const PAGE = defineScript({
  source: pageOfScoredLua,
  keys: "scored",
  args: "min, max, count, highestFirst, seenScore, seenMember",
  proof: "reads",
  reply: list(text),
});

type Walk = {
  /** Bounds of the scores, both inclusive. */
  min?: number | undefined;
  max?: number | undefined;
  /** Reverses the order. */
  highestFirst?: boolean;
  size: number;
  after?: Scored | undefined;
};

/**
 * Yields the members of a sorted set that follow `after`, in pages, in Redis' order: by score, then by member. If a member's
 * score changes between two pages, that member may come twice or not at all. Members that are removed or added between two
 * pages cause no other member to be skipped or repeated.
 */
export async function* walkScored(redis: Redis, key: string, walk: Walk): AsyncGenerator<Scored[]> {
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, highestFirst, size, after } = walk;
  const readPage = PAGE.on(redis);
  const words = { min: toBound(min), max: toBound(max), count: size, highestFirst };
  for (let last = after; ; ) {
    const seen = { seenScore: last?.score, seenMember: last?.member };
    const page = toScored(await readPage({ scored: key }, { ...words, ...seen }));
    if (page.length > 0) yield page;
    if (page.length < size) return;
    last = page.at(-1);
  }
}

type Source<Item> = { pages: AsyncIterator<readonly Item[]>; page: readonly Item[]; at: number };

/**
 * Merges sources, each sorted by `isBefore`, into pages of `size`; only the last page may be shorter. The sources' pages must
 * not be empty. Reads the next page of a source only after all items of its previous page are merged.
 */
export async function* mergePages<Item>(
  sources: readonly AsyncIterator<readonly Item[]>[],
  isBefore: (a: Item, b: Item) => boolean,
  size: number,
): AsyncGenerator<Item[]> {
  const open = new Set(sources.map((pages): Source<Item> => ({ pages, page: [], at: 0 })));
  const headOf = ({ page, at }: Source<Item>) => page[at] as Item;
  async function turn(source: Source<Item>): Promise<void> {
    const next = await source.pages.next();
    if (next.done) open.delete(source);
    else Object.assign(source, { page: next.value, at: 0 });
  }
  await Promise.all([...open].map(turn));
  let merged: Item[] = [];
  while (open.size > 0) {
    let first: Source<Item> | undefined;
    for (const source of open) {
      if (first === undefined || isBefore(headOf(source), headOf(first))) first = source;
    }
    const taken = first as Source<Item>;
    merged.push(headOf(taken));
    if (merged.length === size) {
      yield merged;
      merged = [];
    }
    taken.at += 1;
    if (taken.at === taken.page.length) await turn(taken);
  }
  if (merged.length > 0) yield merged;
}

/** Groups items into pages of `size`; only the last page may be shorter, and none is empty. */
export async function* inPages<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  size: number,
): AsyncGenerator<Item[]> {
  let page: Item[] = [];
  for await (const item of items) {
    page.push(item);
    if (page.length < size) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

/** Parses a reply in which names and values alternate, such as the reply of HGETALL. */
export function toObject(flat: readonly string[]): Record<string, string> {
  const object: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) object[flat[i] as string] = flat[i + 1] as string;
  return object;
}
