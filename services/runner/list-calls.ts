import type { Redis } from "../../shared/redis/connect.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { keys } from "./store-keys.ts";

const LIMIT_MAX = 1000;
const PAGE = 500;
const FIELDS = [
  "st",
  "job",
  "bytes",
  "sha256",
  "at",
  "finished",
  "status",
  "lease",
  "code",
  "reason",
  "attempts",
] as const;

export const LISTED_STATES = ["running", "interrupted", "stored", "done", "failed"] as const;
export type ListedState = (typeof LISTED_STATES)[number];

/** What is shown of a call: no bytes, no metadata. `interrupted`: marked running, but its lease has lapsed. */
export type ListedCall = {
  readonly id: string;
  readonly job_id: number;
  readonly state: ListedState;
  /** Unix milliseconds by Redis' clock, as `finished_at`. */
  readonly started_at: number;
  readonly finished_at?: number;
  /** What the sender was answered. */
  readonly status?: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly code?: string;
  readonly reason?: string;
  /** Of a long call: runs that ended with an error. */
  readonly attempts_failed?: number;
};

export type Filter = { limit: number; state?: ListedState; jobId?: number; after?: string };
export type Page = {
  readonly calls: readonly ListedCall[];
  /** The `after` of the next page, where there is more. */
  readonly next?: string;
};

/**
 * Reads what the runners on this Redis ran: first the long calls that are not done, then the newest. A page is filled
 * however rare the filter makes its calls.
 */
export function createListCalls(redis: Redis, clock: Clock) {
  async function one(id: string): Promise<ListedCall | undefined> {
    return toListed(id, await redis.hmget(keys.call(id), ...FIELDS), clock());
  }

  async function* newestFirst(after: string | undefined): AsyncGenerator<ListedCall> {
    const rank = after === undefined ? null : await redis.zrevrank(keys.calls, after);
    for (let start = rank === null ? 0 : rank + 1; ; start += PAGE) {
      const ids = await redis.zrevrange(keys.calls, start, start + PAGE - 1);
      const page = await Promise.all(ids.map(one));
      yield* page.filter((call) => call !== undefined);
      if (ids.length < PAGE) return;
    }
  }

  async function list({ limit, after, ...filter }: Filter): Promise<Page> {
    const calls: ListedCall[] = [];
    for await (const call of newestFirst(after)) {
      if (!matches(call, filter)) continue;
      const last = calls.at(-1);
      if (last !== undefined && calls.length >= Math.min(limit, LIMIT_MAX)) return { calls, next: last.id };
      calls.push(call);
    }
    return { calls };
  }

  return { one, list };
}

function matches(call: ListedCall, { state, jobId }: Pick<Filter, "state" | "jobId">): boolean {
  return (state === undefined || call.state === state) && (jobId === undefined || call.job_id === jobId);
}

function toListed(id: string, fields: readonly (string | null)[], now: number): ListedCall | undefined {
  const [st, job, bytes, sha256, at, finished, status, lease, code, reason, attempts] = fields;
  if (!st) return undefined;
  const interrupted = st === "RUNNING" && Number(lease) < now;
  return {
    id,
    job_id: Number(job),
    state: interrupted ? "interrupted" : (st.toLowerCase() as ListedState),
    started_at: Number(at),
    ...(finished && { finished_at: Number(finished) }),
    ...(status && { status: Number(status) }),
    bytes: Number(bytes),
    sha256: sha256 ?? "",
    ...(code && { code, reason: reason ?? "" }),
    ...(attempts && { attempts_failed: Number(attempts) }),
  };
}
