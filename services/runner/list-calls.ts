import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { storeUnavailable } from "./call-store.ts";

/** How many calls one answer looks at, whatever the filter: everybody who reaches the port may ask. */
const LOOKED_AT_MAX = 1000;
const PAGE = 100;
const LIMIT_DEFAULT = 100;
const FIELDS = ["st", "job", "len", "in", "at", "took", "status", "lease", "code", "attempts"] as const;

const LISTED_STATES = ["running", "interrupted", "stored", "done", "failed"] as const;
type ListedState = (typeof LISTED_STATES)[number];

/** What everybody may see of a call: no bytes, no metadata and no text of the handler. */
type ListedCall = {
  readonly id: string;
  readonly job_id: number;
  /** `interrupted` if it is marked as running, but its lease has lapsed. */
  readonly state: ListedState;
  /** Unix milliseconds by Redis' clock, like `finished_at`. */
  readonly started_at: number;
  readonly finished_at?: number;
  /** What the sender was answered. */
  readonly status?: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly code?: string;
  /** How many runs of a long call ended with an error. */
  readonly attempts_failed?: number;
};

type Filter = { limit: number; state?: ListedState; jobId?: number; after?: string };
type Page = {
  readonly calls: readonly ListedCall[];
  /** The `after` of the next page, if there are more calls to look at. With it, even an empty page is not the last. */
  readonly next?: string;
};

export type ListCalls = ReturnType<typeof createListCalls>;

/**
 * Reads what the runners on this Redis run and ran: first the long calls that are not done, then the newest. Throws
 * `runner.store_unavailable`.
 */
export function createListCalls(redis: Redis, keys: RunnerKeys, clock: Clock) {
  async function one(id: string): Promise<ListedCall | undefined> {
    return toListed(id, await redis.hmgetBuffer(keys.call(id), ...FIELDS), clock());
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
    const last = ids[lookedAt - 1];
    return { calls, ...(lookedAt < ids.length && last !== undefined && { next: last }) };
  }

  /** One id more than `list` looks at, which tells whether there are more. */
  async function idsAfter(after: string | undefined): Promise<string[]> {
    const rank = after === undefined ? -1 : await redis.zrevrank(keys.calls, after);
    if (rank === null) {
      throw malformed("the call named by `after` is no longer stored; list again without `after`");
    }
    return redis.zrevrange(keys.calls, rank + 1, rank + 1 + LOOKED_AT_MAX);
  }

  async function* look(ids: readonly string[]): AsyncGenerator<ListedCall | undefined> {
    for (let start = 0; start < ids.length; start += PAGE) {
      yield* await Promise.all(ids.slice(start, start + PAGE).map(one));
    }
  }

  return {
    one: (id: string) => one(id).catch(unavailable),
    list: (filter: Filter) => list(filter).catch(unavailable),
  };
}

function unavailable(cause: unknown): never {
  throw cause instanceof AppError ? cause : storeUnavailable(cause);
}

/** Reads `limit`, `state`, `job_id` and `after` from the query of a URL; throws `request.malformed`. */
export function parseFilter(url: string): Filter {
  const query = new URL(url, "http://runner").searchParams;
  const limit = wholeNumber(query.get("limit"), "limit") ?? LIMIT_DEFAULT;
  const jobId = wholeNumber(query.get("job_id"), "job_id");
  const state = query.get("state");
  if (state !== null && !isListedState(state))
    throw malformed(`state must be one of ${LISTED_STATES.join(", ")}`);
  const after = query.get("after");
  return {
    limit,
    ...(jobId !== undefined && { jobId }),
    ...(state !== null && { state }),
    ...(after !== null && { after }),
  };
}

function isListedState(text: string): text is ListedState {
  return (LISTED_STATES as readonly string[]).includes(text);
}

function wholeNumber(text: string | null, name: string): number | undefined {
  if (text === null) return undefined;
  if (!/^\d{1,16}$/.test(text)) throw malformed(`${name} must be an integer`);
  return Number(text);
}

function malformed(detail: string): AppError {
  return AppError.public("request.malformed", detail);
}

function matches(
  call: ListedCall | undefined,
  { state, jobId }: Pick<Filter, "state" | "jobId">,
): call is ListedCall {
  if (call === undefined) return false;
  return (state === undefined || call.state === state) && (jobId === undefined || call.job_id === jobId);
}

function toListed(id: string, fields: readonly (Buffer | null)[], now: number): ListedCall | undefined {
  const texts = fields.map((field) => field?.toString());
  const [st, job, len, , at, took, status, lease, code, attempts] = texts;
  if (!st) return undefined;
  const interrupted = st === "RUNNING" && Number(lease) < now;
  return {
    id,
    job_id: Number(job),
    state: interrupted ? "interrupted" : (st.toLowerCase() as ListedState),
    started_at: Number(at),
    ...(took !== undefined && { finished_at: Number(at) + Number(took) }),
    ...(status && { status: Number(status) }),
    bytes: Number(len),
    sha256: fields[3]?.toString("hex") ?? "",
    ...(code && { code }),
    ...(attempts && { attempts_failed: Number(attempts) }),
  };
}
