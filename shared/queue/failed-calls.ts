import type { Job, Queue } from "bullmq";
import { type ErrorCode, isErrorCode } from "../errors/codes.ts";
import { JobCall, ORIGINS, type Origin, WEBHOOK_PATH } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { countFailed, findFailed, walkFailed } from "./failed-index.ts";
import type { FailedRef } from "./failed-record.ts";
import { openQueue } from "./open-queue.ts";

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
