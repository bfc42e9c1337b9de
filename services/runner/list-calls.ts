import { type CallsAnswer, type ListedCall, ListedState } from "../../shared/openapi/runner-answers.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { storeUnavailable } from "./call-store.ts";

/**
 * Maximum number of calls that one request reads, with any filter. Without this limit, any client that reaches the port
 * could make Redis read all calls.
 */
const READ_MAX = 1000;
const PAGE = 100;
const LIMIT_DEFAULT = 100;
const FIELDS = ["st", "job", "len", "in", "at", "took", "status", "lease", "code", "attempts"] as const;

type Filter = { limit: number; state?: ListedCall["state"]; jobId?: number; after?: string };
export type ListCalls = ReturnType<typeof createListCalls>;

/**
 * Creates functions that read the calls of the runners on this Redis. `list` begins with the long calls that are not done,
 * and then lists the newest calls first. Both throw `runner.store_unavailable`.
 */
export function createListCalls(redis: Redis, keys: RunnerKeys, clock: Clock) {
  async function one(id: string): Promise<ListedCall | undefined> {
    return toListed(id, await redis.hmgetBuffer(keys.call(id), ...FIELDS), clock());
  }

  async function list({ limit, after, ...filter }: Filter): Promise<CallsAnswer> {
    const ids = await idsAfter(after);
    const calls: ListedCall[] = [];
    let lookedAt = 0;
    for await (const call of readCalls(ids.slice(0, READ_MAX))) {
      lookedAt += 1;
      if (matches(call, filter)) calls.push(call);
      if (calls.length >= limit) break;
    }
    const last = ids[lookedAt - 1];
    return { calls, ...(lookedAt < ids.length && last !== undefined && { next: last }) };
  }

  /**
   * Reads the ids of the calls after `after`, and one more than `list` reads. This extra id shows that there are more calls.
   */
  async function idsAfter(after: string | undefined): Promise<string[]> {
    const rank = after === undefined ? -1 : await redis.zrevrank(keys.calls, after);
    if (rank === null) {
      throw malformed("the call named by `after` is no longer stored; list again without `after`");
    }
    return redis.zrevrange(keys.calls, rank + 1, rank + 1 + READ_MAX);
  }

  async function* readCalls(ids: readonly string[]): AsyncGenerator<ListedCall | undefined> {
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
    throw malformed(`state must be one of ${ListedState.options.join(", ")}`);
  const after = query.get("after");
  return {
    limit,
    ...(jobId !== undefined && { jobId }),
    ...(state !== null && { state }),
    ...(after !== null && { after }),
  };
}

function isListedState(text: string): text is ListedCall["state"] {
  return (ListedState.options as readonly string[]).includes(text);
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
    state: interrupted ? "interrupted" : (st.toLowerCase() as ListedCall["state"]),
    started_at: Number(at),
    ...(took !== undefined && { finished_at: Number(at) + Number(took) }),
    ...(status && { status: Number(status) }),
    bytes: Number(len),
    sha256: fields[3]?.toString("hex") ?? "",
    ...(code && { code }),
    ...(attempts && { attempts_failed: Number(attempts) }),
  };
}
