import type { Job, Queue } from "bullmq";
import { type ErrorCode, isErrorCode } from "../errors/codes.ts";
import { JobCall, ORIGINS, type Origin, WEBHOOK_PATH } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { inPages, toScored } from "../redis/pages.ts";
import type { FailedRef } from "./call-record.ts";
import { openQueue } from "./protocol.ts";

/** A call that waits for an operator. `acceptedAt` and `failedAt` are unix ms. */
export type FailedCall = FailedRef & {
  acceptedAt: number;
  /** Attempts spent since it was queued or last replayed. */
  attempts: number;
  code: ErrorCode;
  reason: string;
  /** Undefined if `stored` is not a call of this version. */
  call: JobCall | undefined;
  /** What lies in the queue. */
  stored: unknown;
};

/** Selects failed calls that meet every field present. The times are when a call failed, in unix ms, both inclusive. */
export type CallFilter = {
  ids?: readonly string[] | undefined;
  origin?: Origin | undefined;
  /** The webhook path that received it. */
  endpoint?: string | undefined;
  jobId?: number | undefined;
  code?: ErrorCode | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** Limits the memory, because each call is read with its body. */
const CALLS_AT_ONCE = 25;
const REFS_AT_ONCE = 500;

export type FailedCalls = ReturnType<typeof createFailedCalls>;

/** Reads the failed calls, and changes nothing. */
export function createFailedCalls(redis: Redis) {
  const queues = Object.fromEntries(ORIGINS.map((origin) => [origin, openQueue(redis, origin)])) as Queues;

  /** The calls that match, by the time they failed, oldest first by default. Only a few are in memory at a time. */
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

    /** How many calls match. Cheap if the filter has only origin and times. */
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

    /** BullMQ's state of a call: `waiting`, `delayed`, `active`, `failed`; undefined if it is in no queue. */
    async placeOf(id: string): Promise<string | undefined> {
      const states = await Promise.all(ORIGINS.map((origin) => queues[origin].getJobState(id)));
      return states.find((state) => state !== "unknown");
    },
  };
}

type Queues = Record<Origin, Queue<JobCall>>;

/** Undefined if the call has left the failed calls since it was listed. */
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

/** The producer's retry policy writes `code: reason`. A text without a known code is BullMQ's own. */
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

/** Selects by origin and by the time of the failure, both ends inclusive. */
type Range = { origin: Origin | undefined; since: number | undefined; until: number | undefined };

/**
 * The failed calls of a range without their data, oldest or newest first. Calls that leave or arrive during the walk do not
 * shift the others, because each page begins at the last call seen, not at a position.
 */
function walkFailed(redis: Redis, range: Range, newestFirst: boolean): AsyncGenerator<FailedRef> {
  const walks = originsOf(range).map((origin) => walkOrigin(redis, origin, range, newestFirst));
  return merge(walks, (a, b) => (newestFirst ? a.failedAt > b.failedAt : a.failedAt < b.failedAt));
}

async function countFailed(redis: Redis, range: Range): Promise<number> {
  const { since = "-inf", until = "+inf" } = range;
  const counts = originsOf(range).map((origin) => redis.zcount(keys.failed(origin), since, until));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** Finds which of these calls failed within the range. */
async function findFailed(redis: Redis, ids: readonly string[], range: Range): Promise<FailedRef[]> {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = range;
  const asked = ids.flatMap((id) => originsOf(range).map((origin) => ({ id, origin })));
  const scores = await Promise.all(asked.map(({ id, origin }) => redis.zscore(keys.failed(origin), id)));
  return asked.flatMap((call, i) => {
    const failedAt = Number(scores[i] ?? Number.NaN);
    return failedAt >= since && failedAt <= until ? [{ ...call, failedAt }] : [];
  });
}

function originsOf({ origin }: Range): readonly Origin[] {
  return origin === undefined ? ORIGINS : [origin];
}

async function* walkOrigin(
  redis: Redis,
  origin: Origin,
  { since = "-inf", until = "+inf" }: { since: Score | undefined; until: Score | undefined },
  newestFirst: boolean,
): AsyncGenerator<FailedRef> {
  let last: FailedRef | undefined;
  let skip = 0;
  for (;;) {
    const [from, to] = newestFirst ? [last?.failedAt ?? until, since] : [last?.failedAt ?? since, until];
    const range = [keys.failed(origin), from, to, "WITHSCORES", "LIMIT", skip, REFS_AT_ONCE] as const;
    const reply = await (newestFirst ? redis.zrevrangebyscore(...range) : redis.zrangebyscore(...range));
    const page = toScored(reply).map(({ member, score }) => ({ id: member, origin, failedAt: score }));
    const fresh = page.filter((call) => isBeyond(call, last, newestFirst));
    yield* fresh;
    if (page.length < REFS_AT_ONCE) return;
    // If a whole page failed in the same millisecond as the last call, only the position leads on.
    skip = fresh.length === 0 ? skip + REFS_AT_ONCE : 0;
    last = fresh.at(-1) ?? last;
  }
}

type Score = number | "-inf" | "+inf";

/** Whether the call comes after `last` in Redis' order: by score, then by id. */
function isBeyond(call: FailedRef, last: FailedRef | undefined, newestFirst: boolean): boolean {
  if (last === undefined || call.failedAt !== last.failedAt) return true;
  return newestFirst ? call.id < last.id : call.id > last.id;
}

/** Merges sources that are each in order. */
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
