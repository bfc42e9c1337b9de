import type { Job, Queue } from "bullmq";
import { type ErrorCode, isErrorCode } from "../errors/codes.ts";
import { JobCall, ORIGINS, type Origin } from "../job-call/job-call.ts";
import { WEBHOOK_PATH } from "../job-call/metadata.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { toScored } from "../redis/pages.ts";
import type { FailedRef } from "./call-record.ts";
import { openQueue } from "./protocol.ts";

/** A call that waits for an operator. */
export type FailedCall = FailedRef & {
  acceptedAt: number;
  /** Attempts spent since it was queued or last replayed. */
  attempts: number;
  code: ErrorCode;
  reason: string;
  /** Undefined when what is stored is no call of this version; `stored` is what lies there. */
  call: JobCall | undefined;
  stored: unknown;
};

/** Which failed calls; every field that is present must hold. times are when a call failed, both ends included. */
export type CallFilter = {
  ids?: readonly string[] | undefined;
  origin?: Origin | undefined;
  /** The webhook path it came in by. */
  endpoint?: string | undefined;
  jobId?: number | undefined;
  code?: ErrorCode | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** Bodies are part of what is read: so many at once bound the memory. */
const CALLS_AT_ONCE = 25;

export type FailedCalls = ReturnType<typeof createFailedCalls>;

/** Reads the failed calls; changes nothing. */
export function createFailedCalls(redis: Redis) {
  const queues = Object.fromEntries(ORIGINS.map((origin) => [origin, openQueue(redis, origin)])) as Queues;

  /** The calls that match, oldest failed first unless asked otherwise; few are in memory at a time. */
  async function* matching(filter: CallFilter, { newestFirst = false } = {}): AsyncGenerator<FailedCall> {
    const range = { origin: filter.origin, since: filter.since, until: filter.until };
    const refs = filter.ids
      ? await findFailed(redis, filter.ids, range)
      : walkFailed(redis, range, newestFirst);
    for await (const page of inPages(refs, CALLS_AT_ONCE)) {
      const calls = await Promise.all(page.map((failed) => load(queues, failed)));
      yield* calls.filter((call) => call !== undefined).filter((call) => matches(call, filter));
    }
  }

  return {
    matching,

    /** How many calls match; cheap while only origin and time are asked for. */
    async count(filter: CallFilter): Promise<number> {
      const { ids, endpoint, jobId, code, origin, since, until } = filter;
      const byIndex = [ids, endpoint, jobId, code].every((field) => field === undefined);
      if (byIndex) return countFailed(redis, { origin, since, until });
      let count = 0;
      for await (const _ of matching(filter)) count += 1;
      return count;
    },

    async find(id: string): Promise<FailedCall | undefined> {
      for await (const call of matching({ ids: [id] })) return call;
      return undefined;
    },

    /** Where in the queue a call is that is not failed: `waiting`, `delayed`, `active`; undefined when nowhere. */
    async placeOf(id: string): Promise<string | undefined> {
      const states = await Promise.all(ORIGINS.map((origin) => queues[origin].getJobState(id)));
      return states.find((state) => state !== "unknown");
    },
  };
}

type Queues = Record<Origin, Queue<JobCall>>;

/** Undefined when it left the failed calls since it was listed. */
async function load(queues: Queues, failed: FailedRef): Promise<FailedCall | undefined> {
  const job: Job | undefined = await queues[failed.origin].getJob(failed.id);
  if (job?.finishedOn === undefined) return undefined;
  const stored: unknown = job.data;
  const call = JobCall.safeParse(stored).data;
  return {
    ...failed,
    ...toFailure(job.failedReason),
    acceptedAt: call?.accepted_at ?? job.timestamp,
    attempts: job.attemptsMade,
    call,
    stored,
  };
}

/** A failure is stored as `code: reason` (retry-policy); what BullMQ itself says has no code. */
function toFailure(failedReason: string | undefined): { code: ErrorCode; reason: string } {
  const text = failedReason ?? "";
  const end = text.indexOf(": ");
  const code = text.slice(0, Math.max(end, 0));
  if (!isErrorCode(code)) return { code: "internal.unexpected", reason: text };
  return { code, reason: text.slice(end + 2) };
}

function matches({ code, call }: FailedCall, filter: CallFilter): boolean {
  if (filter.code !== undefined && code !== filter.code) return false;
  if (filter.jobId !== undefined && call?.job_id !== filter.jobId) return false;
  return filter.endpoint === undefined || call?.metadata[WEBHOOK_PATH] === filter.endpoint;
}

async function* inPages<Item>(items: AsyncIterable<Item> | Iterable<Item>, size: number) {
  let page: Item[] = [];
  for await (const item of items) {
    page.push(item);
    if (page.length < size) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

/** Of which origins, and when failed, both ends included. */
type Range = { origin: Origin | undefined; since: number | undefined; until: number | undefined };

const AT_ONCE = 500;

/**
 * The failed calls of a range in the order they failed, or the newest first, without their data. Calls that leave
 * or arrive meanwhile move no other: the walk goes on from the last call seen, not from a position.
 */
function walkFailed(redis: Redis, range: Range, newestFirst: boolean): AsyncGenerator<FailedRef> {
  const walks = originsOf(range).map((origin) => walkOrigin(redis, { ...range, origin, newestFirst }));
  return merge(walks, (a, b) => (newestFirst ? a.failedAt > b.failedAt : a.failedAt < b.failedAt));
}

async function countFailed(redis: Redis, range: Range): Promise<number> {
  const { since = "-inf", until = "+inf" } = range;
  const counts = originsOf(range).map((origin) => redis.zcount(keys.failed(origin), since, until));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** Those of these calls that are failed within the range. */
async function findFailed(redis: Redis, ids: readonly string[], range: Range): Promise<FailedRef[]> {
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
