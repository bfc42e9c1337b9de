import { type ErrorCode, isErrorCode } from "../errors/codes.ts";
import { JobCall, type Origin, WEBHOOK_PATH } from "../job-call/job-call.ts";
import { inPages, toScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { type Backends, openBackends } from "./backend.ts";
import type { FailedRef } from "./call-record.ts";
import { jobIdsOf, originOf, type QueueName } from "./queue-name.ts";
import { openRegistry } from "./registry.ts";

/** A call that waits for an operator. `acceptedAt` and `failedAt` are unix ms. */
export type FailedCall = FailedRef & {
  /** It may be one that this release does not know. */
  origin: string;
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
  serviceId?: number | undefined;
  jobId?: number | undefined;
  code?: ErrorCode | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** Limits the memory, because each call is read with its body. */
const CALLS_AT_ONCE = 25;
const REFS_AT_ONCE = 500;

export type FailedCalls = ReturnType<typeof createFailedCalls>;

/** Reads the failed calls of all queues, and changes nothing. */
export function createFailedCalls(partition: Partition) {
  const backendOf = openBackends(partition);
  const index = createFailedIndex(partition);

  /** The calls that match, by the time they failed, oldest first by default. Only a few are in memory at a time. */
  async function* matching(filter: CallFilter, { newestFirst = false } = {}): AsyncGenerator<FailedCall> {
    const range = rangeOf(filter);
    const refs = filter.ids ? await index.find(filter.ids, range) : await index.walk(range, newestFirst);
    for await (const page of inPages(refs, CALLS_AT_ONCE)) {
      const calls = await Promise.all(page.map((failed) => load(backendOf, failed)));
      yield* calls.filter((call) => call !== undefined).filter((call) => matches(call, filter));
    }
  }

  return {
    matching,

    /** How many calls match. Cheap if the filter has only origin, service, job and times. */
    async count(filter: CallFilter): Promise<number> {
      const { ids, endpoint, code } = filter;
      const byIndex = [ids, endpoint, code].every((field) => field === undefined);
      if (byIndex) return index.count(rangeOf(filter));
      let count = 0;
      for await (const _ of matching(filter)) count += 1;
      return count;
    },

    async find(id: string): Promise<FailedCall | undefined> {
      for await (const call of matching({ ids: [id] })) return call;
      return undefined;
    },
  };
}

/** Undefined if the call has left the failed calls since it was listed. */
async function load(backendOf: Backends, failed: FailedRef): Promise<FailedCall | undefined> {
  const job = await backendOf(failed.queue).getJobData(failed.id);
  if (job?.finishedOn === undefined) return undefined;
  const stored: unknown = parsed(job.data);
  const call = JobCall.safeParse(stored).data;
  return {
    ...failed,
    origin: originOf(failed.queue),
    ...toFailure(job.failedReason),
    acceptedAt: call?.accepted_at ?? job.timestamp,
    attempts: job.attemptsMade,
    call,
    stored,
  };
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
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
  return filter.endpoint === undefined || call?.metadata[WEBHOOK_PATH] === filter.endpoint;
}

/** Selects by what a queue's name says and by the time of the failure, both ends inclusive. */
type Range = Pick<CallFilter, "origin" | "serviceId" | "jobId" | "since" | "until">;

function rangeOf({ origin, serviceId, jobId, since, until }: CallFilter): Range {
  return { origin, serviceId, jobId, since, until };
}

/** The failed calls without their data. */
function createFailedIndex({ redis, keys, ...partition }: Partition) {
  const registry = openRegistry({ redis, keys, ...partition });

  async function queuesIn({ origin, serviceId, jobId }: Range): Promise<QueueName[]> {
    return (await registry.names()).filter((queue) => {
      const ids = jobIdsOf(queue);
      if (origin !== undefined && originOf(queue) !== origin) return false;
      if (serviceId !== undefined && ids.serviceId !== serviceId) return false;
      return jobId === undefined || ids.jobIndex === jobId;
    });
  }

  async function* walkQueue(queue: QueueName, range: Range, newestFirst: boolean): AsyncGenerator<FailedRef> {
    let last: FailedRef | undefined;
    let skip = 0;
    for (;;) {
      const page = await readPage(queue, {
        since: range.since,
        until: range.until,
        newestFirst,
        from: last?.failedAt,
        skip,
      });
      const fresh = page.filter((call) => isBeyond(call, last, newestFirst));
      yield* fresh;
      if (page.length < REFS_AT_ONCE) return;
      // If a whole page failed in the same millisecond as the last call, only the position leads on.
      skip = fresh.length === 0 ? skip + REFS_AT_ONCE : 0;
      last = fresh.at(-1) ?? last;
    }
  }

  /** Begins at the time `from`, or at the range's own beginning. */
  async function readPage(
    queue: QueueName,
    { since, until, newestFirst, from, skip }: Page,
  ): Promise<FailedRef[]> {
    const [low, high] = newestFirst ? [since, from ?? until] : [from ?? since, until];
    const key = keys.inQueue(queue, "failed");
    const page = ["WITHSCORES", "LIMIT", skip, REFS_AT_ONCE] as const;
    const reply = newestFirst
      ? await redis.zrevrangebyscore(key, high ?? "+inf", low ?? "-inf", ...page)
      : await redis.zrangebyscore(key, low ?? "-inf", high ?? "+inf", ...page);
    return toScored(reply).map(({ member, score }) => ({ id: member, queue, failedAt: score }));
  }

  return {
    /**
     * The failed calls of a range, oldest or newest first. Calls that leave or arrive during the walk do not shift the others,
     * because each page begins at the last call seen, not at a position.
     */
    async walk(range: Range, newestFirst: boolean): Promise<AsyncGenerator<FailedRef>> {
      const walks = (await queuesIn(range)).map((queue) => walkQueue(queue, range, newestFirst));
      return merge(walks, (a, b) => (newestFirst ? a.failedAt > b.failedAt : a.failedAt < b.failedAt));
    },

    async count(range: Range): Promise<number> {
      const { since = "-inf", until = "+inf" } = range;
      const queues = await queuesIn(range);
      const counts = queues.map((queue) => redis.zcount(keys.inQueue(queue, "failed"), since, until));
      return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
    },

    /** Finds which of these calls failed within the range. */
    async find(ids: readonly string[], range: Range): Promise<FailedRef[]> {
      const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = range;
      const queues = await queuesIn(range);
      const found = ids.map(async (id) => {
        const scores = await Promise.all(
          queues.map((queue) => redis.zscore(keys.inQueue(queue, "failed"), id)),
        );
        return queues.flatMap((queue, i) => {
          const failedAt = Number(scores[i] ?? Number.NaN);
          return failedAt >= since && failedAt <= until ? [{ id, queue, failedAt }] : [];
        });
      });
      return (await Promise.all(found)).flat();
    },
  };
}

type Page = Pick<Range, "since" | "until"> & {
  newestFirst: boolean;
  from: number | undefined;
  skip: number;
};

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
