import { ORIGINS, type Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { toScored } from "../redis/scored.ts";
import type { FailedRef } from "./failed-record.ts";

/** Of which origins, and when failed, both ends included. */
export type Range = { origin: Origin | undefined; since: number | undefined; until: number | undefined };

const AT_ONCE = 500;

/**
 * The failed calls of a range in the order they failed, or the newest first, without their data. Calls that leave
 * or arrive meanwhile move no other: the walk goes on from the last call seen, not from a position.
 */
export function walkFailed(redis: Redis, range: Range, newestFirst: boolean): AsyncGenerator<FailedRef> {
  const walks = originsOf(range).map((origin) => walkOrigin(redis, { ...range, origin, newestFirst }));
  return merge(walks, (a, b) => (newestFirst ? a.failedAt > b.failedAt : a.failedAt < b.failedAt));
}

export async function countFailed(redis: Redis, range: Range): Promise<number> {
  const { since = "-inf", until = "+inf" } = range;
  const counts = originsOf(range).map((origin) => redis.zcount(keys.failed(origin), since, until));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** Those of these calls that are failed within the range. */
export async function findFailed(redis: Redis, ids: readonly string[], range: Range): Promise<FailedRef[]> {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = range;
  const asked = ids.flatMap((id) => originsOf(range).map((origin) => ({ id, origin })));
  const scores = await Promise.all(asked.map(({ id, origin }) => redis.zscore(keys.failed(origin), id)));
  return asked.flatMap((of, i) => {
    const failedAt = Number(scores[i] ?? Number.NaN);
    return failedAt >= since && failedAt <= until ? [{ ...of, failedAt }] : [];
  });
}

function originsOf({ origin }: Range): readonly Origin[] {
  return origin === undefined ? ORIGINS : [origin];
}

type Walk = Range & { origin: Origin; newestFirst: boolean };

async function* walkOrigin(redis: Redis, walk: Walk): AsyncGenerator<FailedRef> {
  let last: FailedRef | undefined;
  let skip = 0;
  for (;;) {
    const page = await readPage(redis, { walk, last, skip });
    const fresh = page.filter((call) => isBeyond(call, last, walk.newestFirst));
    yield* fresh;
    if (page.length < AT_ONCE) return;
    // A whole page failed in the very millisecond of the last call: only then does the position count.
    skip = fresh.length === 0 ? skip + AT_ONCE : 0;
    last = fresh.at(-1) ?? last;
  }
}

type Place = { walk: Walk; last: FailedRef | undefined; skip: number };

async function readPage(redis: Redis, { walk, last, skip }: Place): Promise<FailedRef[]> {
  const { origin, newestFirst, since = "-inf", until = "+inf" } = walk;
  const key = keys.failed(origin);
  const reply = newestFirst
    ? await redis.zrevrangebyscore(key, last?.failedAt ?? until, since, "WITHSCORES", "LIMIT", skip, AT_ONCE)
    : await redis.zrangebyscore(key, last?.failedAt ?? since, until, "WITHSCORES", "LIMIT", skip, AT_ONCE);
  return toScored(reply).map(({ member, score }) => ({ id: member, origin, failedAt: score }));
}

/** Redis orders by score, then by id. */
function isBeyond(call: FailedRef, last: FailedRef | undefined, newestFirst: boolean): boolean {
  if (last === undefined || call.failedAt !== last.failedAt) return true;
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
