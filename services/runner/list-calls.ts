import { AppError } from "../../shared/errors/app-error.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { keys } from "./call-store.ts";

/** Calls that are looked at for one answer, whatever is asked for: anybody who reaches the port may ask. */
const LOOKED_AT_MAX = 1000;
const PAGE = 100;
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
  "attempts",
] as const;

export const LISTED_STATES = ["running", "interrupted", "stored", "done", "failed"] as const;
export type ListedState = (typeof LISTED_STATES)[number];

/**
 * What is shown of a call, to anybody: no bytes, no metadata, nothing in the handler's own words. `interrupted`: marked
 * running, but its lease has lapsed.
 */
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
  /** Of a long call: runs that ended with an error. */
  readonly attempts_failed?: number;
};

export type Filter = { limit: number; state?: ListedState; jobId?: number; after?: string };
export type Page = {
  readonly calls: readonly ListedCall[];
  /** The `after` of the next page, where there is more to look at; this page may be empty all the same. */
  readonly next?: string;
};

/** Reads what the runners on this Redis ran: first the long calls that are not done, then the newest. */
export function createListCalls(redis: Redis, clock: Clock) {
  async function one(id: string): Promise<ListedCall | undefined> {
    return toListed(id, await redis.hmget(keys.call(id), ...FIELDS), clock());
  }

  /** One more than are looked at, which tells whether there is more. */
  async function idsAfter(after: string | undefined): Promise<string[]> {
    const rank = after === undefined ? -1 : await redis.zrevrank(keys.calls, after);
    if (rank === null) throw forgotten();
    return redis.zrevrange(keys.calls, rank + 1, rank + 1 + LOOKED_AT_MAX);
  }

  async function* look(ids: readonly string[]): AsyncGenerator<ListedCall | undefined> {
    for (let start = 0; start < ids.length; start += PAGE) {
      yield* await Promise.all(ids.slice(start, start + PAGE).map(one));
    }
  }

  async function list({ limit, after, ...filter }: Filter): Promise<Page> {
    const ids = await idsAfter(after);
    const calls: ListedCall[] = [];
    let lookedAt = 0;
    for await (const call of look(ids.slice(0, LOOKED_AT_MAX))) {
      lookedAt += 1;
      if (matches(call, filter)) calls.push(call);
      if (calls.length >= limit) break;
    }
    return { calls, ...(lookedAt < ids.length && nextAfter(ids[lookedAt - 1])) };
  }

  return { one, list };
}

function nextAfter(id: string | undefined): Pick<Page, "next"> {
  return id === undefined ? {} : { next: id };
}

function forgotten(): AppError {
  const detail = "the call to go on from is no longer remembered; begin without `after`";
  return AppError.public("request.malformed", detail);
}

function matches(
  call: ListedCall | undefined,
  { state, jobId }: Pick<Filter, "state" | "jobId">,
): call is ListedCall {
  if (call === undefined) return false;
  return (state === undefined || call.state === state) && (jobId === undefined || call.job_id === jobId);
}

function toListed(id: string, fields: readonly (string | null)[], now: number): ListedCall | undefined {
  const [st, job, bytes, sha256, at, finished, status, lease, code, attempts] = fields;
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
    ...(code && { code }),
    ...(attempts && { attempts_failed: Number(attempts) }),
  };
}
