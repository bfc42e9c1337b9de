import type { Redis } from "./connect.ts";

export type Scored = { member: string; score: number };

/** The reply of a command WITHSCORES, a flat list in which members and scores alternate, as pairs. */
export function toScored(reply: readonly string[]): Scored[] {
  const pairs: Scored[] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) {
    pairs.push({ member: String(reply[i]), score: Number(reply[i + 1]) });
  }
  return pairs;
}

/** A score as a bound of ZRANGEBYSCORE and ZREVRANGEBYSCORE. */
export function toBound(score: number): number | string {
  return Number.isFinite(score) ? score : `${score < 0 ? "-" : "+"}inf`;
}

/**
 * The members of a sorted set beyond `after`, in pages, those with the lowest scores first. A member whose score moves meanwhile may come
 * twice. Members that leave meanwhile do not shift the others.
 */
export async function* lowestFirst(
  redis: Redis,
  key: string,
  { size, after }: { size: number; after?: Scored | undefined },
): AsyncGenerator<Scored[]> {
  let last: Scored = after ?? { score: Number.NEGATIVE_INFINITY, member: "" };
  /** How many members of that score may have been there before. */
  let seen = 0;
  for (;;) {
    const count = size + seen;
    const reply = await redis.zrangebyscore(
      key,
      toBound(last.score),
      "+inf",
      "WITHSCORES",
      "LIMIT",
      0,
      count,
    );
    const page = toScored(reply);
    const { score, member } = last;
    const fresh = page.filter((each) => each.score !== score || each.member > member);
    if (fresh.length > 0) yield fresh;
    if (page.length < count) return;
    last = fresh.at(-1) ?? last;
    seen = page.filter((each) => each.score === last.score).length;
  }
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

/** A reply in which names and values alternate, as that of HGETALL. */
export function toObject(flat: readonly string[]): Record<string, string> {
  const object: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) object[flat[i] as string] = flat[i + 1] as string;
  return object;
}
