import { ORIGINS, type Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { toScored } from "../redis/scored.ts";
import type { Parked } from "./failed-record.ts";
import { keys } from "./protocol.ts";

/** Of which origins, and when parked, both ends included. */
export type Range = { origin: Origin | undefined; since: number | undefined; until: number | undefined };

const AT_ONCE = 500;

/**
 * The parked calls of a range in the order they were parked, or the newest first, without their data. Calls that leave
 * or arrive meanwhile move no other: the walk goes on from the last call seen, not from a position.
 */
export function walkParked(redis: Redis, range: Range, newestFirst: boolean): AsyncGenerator<Parked> {
  const walks = originsOf(range).map((origin) => walkOrigin(redis, { ...range, origin, newestFirst }));
  return merge(walks, (a, b) => (newestFirst ? a.parkedAt > b.parkedAt : a.parkedAt < b.parkedAt));
}

export async function countParked(redis: Redis, range: Range): Promise<number> {
  const { since = "-inf", until = "+inf" } = range;
  const counts = originsOf(range).map((origin) => redis.zcount(keys.parked(origin), since, until));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** Those of these calls that are parked within the range. */
export async function findParked(redis: Redis, ids: readonly string[], range: Range): Promise<Parked[]> {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = range;
  const asked = ids.flatMap((id) => originsOf(range).map((origin) => ({ id, origin })));
  const scores = await Promise.all(asked.map(({ id, origin }) => redis.zscore(keys.parked(origin), id)));
  return asked.flatMap((of, i) => {
    const parkedAt = Number(scores[i] ?? Number.NaN);
    return parkedAt >= since && parkedAt <= until ? [{ ...of, parkedAt }] : [];
  });
}

function originsOf({ origin }: Range): readonly Origin[] {
  return origin === undefined ? ORIGINS : [origin];
}

type Walk = Range & { origin: Origin; newestFirst: boolean };

async function* walkOrigin(redis: Redis, walk: Walk): AsyncGenerator<Parked> {
  let last: Parked | undefined;
  let skip = 0;
  for (;;) {
    const page = await readPage(redis, { walk, last, skip });
    const fresh = page.filter((call) => isBeyond(call, last, walk.newestFirst));
    yield* fresh;
    if (page.length < AT_ONCE) return;
    // A whole page parked in the very millisecond of the last call: only then does the position count.
    skip = fresh.length === 0 ? skip + AT_ONCE : 0;
    last = fresh.at(-1) ?? last;
  }
}

type Place = { walk: Walk; last: Parked | undefined; skip: number };

async function readPage(redis: Redis, { walk, last, skip }: Place): Promise<Parked[]> {
  const { origin, newestFirst, since = "-inf", until = "+inf" } = walk;
  const key = keys.parked(origin);
  const reply = newestFirst
    ? await redis.zrevrangebyscore(key, last?.parkedAt ?? until, since, "WITHSCORES", "LIMIT", skip, AT_ONCE)
    : await redis.zrangebyscore(key, last?.parkedAt ?? since, until, "WITHSCORES", "LIMIT", skip, AT_ONCE);
  return toScored(reply).map(({ member, score }) => ({ id: member, origin, parkedAt: score }));
}

/** Redis orders by score, then by id. */
function isBeyond(call: Parked, last: Parked | undefined, newestFirst: boolean): boolean {
  if (last === undefined || call.parkedAt !== last.parkedAt) return true;
  return newestFirst ? call.id < last.id : call.id > last.id;
}

async function* merge<Item>(
  sources: readonly AsyncGenerator<Item>[],
  isBefore: (a: Item, b: Item) => boolean,
): AsyncGenerator<Item> {
  const heads = await Promise.all(sources.map(async (source) => ({ source, head: await source.next() })));
  for (;;) {
    const open = heads.flatMap((entry) => (entry.head.done ? [] : [{ entry, item: entry.head.value }]));
    const [first, ...others] = open;
    if (first === undefined) return;
    const next = others.reduce((best, one) => (isBefore(one.item, best.item) ? one : best), first);
    yield next.item;
    next.entry.head = await next.entry.source.next();
  }
}
