import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { NOW, type Script, script } from "../../shared/redis/script.ts";
import { isNewerError, unlessNewer, VERSIONS } from "../../shared/redis/version.ts";
import { delay } from "../../shared/time/clock.ts";
import type { HttpAnswer } from "./router.ts";

/*
 * What all runners on one Redis share of a call. The keys are in shared/redis/keys.ts.
 *
 *   (none) ─begin─► RUNNING ─finish─► DONE          a short call; RUNNING holds only while its lease does
 *                     │  ▲
 *                fail ▼  │ begin
 *                   FAILED
 *
 *   (none) ─begin─► RUNNING ─store─► STORED ─claim─► RUNNING ─finish─► DONE          a long call
 *                                      ▲               │ └─fail─► FAILED (begin starts it anew)
 *                                      ├───give back───┘               │
 *                                      └──────────run again────────────┘
 *
 * The fields of a call:
 *   always          v, st, request (job and SHA-256 of the body), job, bytes, sha256, at
 *   while it runs   owner, lease
 *   once answered   status; after a 2xx also type and answer (base64)
 *   at its end      finished; if it FAILED also code and reason. The reason is the handler's own text and is never listed
 *   a long call     attempts (failed ones), runs; until it is DONE also input (base64), input_type, metadata, traceparent
 * A FAILED long call has no TTL.
 *
 * Leases and due times follow Redis' clock, so that runners need not agree on the time.
 */
/*
 * ARGV: id, fingerprint, owner, leaseMs, memoryMs, job, bytes, sha256. A long call has its answer, the 202, from the moment
 * it is stored, so a repeat is ANSWERED while it waits and runs.
 */
const BEGIN = `${NOW}${unlessNewer("runnerCall")}
local id, request, owner, lease, memory = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local seen = redis.call('HMGET', KEYS[1], 'st', 'request', 'owner', 'lease', 'status', 'type', 'answer')
if seen[1] then
  if seen[2] ~= request then return {'REUSED'} end
  if seen[1] ~= 'FAILED' and seen[7] then return {'ANSWERED', seen[5], seen[6], seen[7]} end
  if seen[1] == 'RUNNING' and seen[3] ~= owner and tonumber(seen[4]) > now then return {'RUNNING'} end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.runnerCall}, 'st', 'RUNNING', 'request', request, 'owner', owner, 'lease', now + lease, 'at', now,
  'job', ARGV[6], 'bytes', ARGV[7], 'sha256', ARGV[8])
redis.call('PEXPIRE', KEYS[1], memory + lease)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + memory, id)
redis.call('ZREM', KEYS[3], id)
return {'NEW'}`;

/* ARGV: id, owner, leaseMs, memoryMs. */
const RENEW = `${NOW}
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'lease', now + ARGV[3])
redis.call('ZADD', KEYS[2], 'XX', now + ARGV[3], ARGV[1])
if redis.call('PTTL', KEYS[1]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4] + ARGV[3]) end
return 1`;

/* ARGV: id, memoryMs, fingerprint, job, bytes, sha256, status, type, answer. Returns the first answer, if there is one. */
const FINISH = `${NOW}${unlessNewer("runnerCall")}
local id, memory = ARGV[1], ARGV[2]
local seen = redis.call('HMGET', KEYS[1], 'st', 'status', 'type', 'answer')
if seen[1] == 'DONE' then return {seen[2], seen[3], seen[4]} end
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.runnerCall}, 'st', 'DONE', 'finished', now, 'request', ARGV[3], 'job', ARGV[4], 'bytes', ARGV[5],
  'sha256', ARGV[6], 'status', ARGV[7], 'type', ARGV[8], 'answer', ARGV[9])
redis.call('HSETNX', KEYS[1], 'at', now)
redis.call('HDEL', KEYS[1], 'owner', 'lease', 'input', 'input_type', 'metadata', 'traceparent', 'code', 'reason')
redis.call('PEXPIRE', KEYS[1], memory)
redis.call('ZADD', KEYS[2], now + memory, id)
redis.call('ZREM', KEYS[3], id)
return false`;

/* ARGV: id, owner, code, reason, status, attempts or nothing. */
const FAIL = `${NOW}
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'st', 'FAILED', 'finished', now, 'code', ARGV[3], 'reason', ARGV[4], 'status', ARGV[5])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'attempts', ARGV[6]) end
redis.call('HDEL', KEYS[1], 'owner', 'lease')
redis.call('ZREM', KEYS[2], ARGV[1])
return 1`;

/** What identifies a call in its record. */
type CallSummary = {
  readonly callId: string;
  readonly jobId: number;
  readonly bytes: number;
  readonly sha256: string;
};

/** What `begin` found under the key. */
type Begun =
  | { kind: "new" }
  /** The call was answered before, and that answer is final. */
  | { kind: "answered"; answer: HttpAnswer }
  /** Another runner holds its lease. */
  | { kind: "running" }
  /** The key belongs to another job or other bytes. */
  | { kind: "reused" };

/** Why a call failed. `status` is what its sender was answered, `attempts` how many runs of a long call failed. */
export type Failure = { code: string; reason: string; status: number; attempts?: number };

export type StoreOptions = {
  durable: DurableRedis;
  /** Unique to this runner: a call that it left RUNNING is its own to begin again. */
  owner: string;
  leaseMs: number;
  memoryMs: number;
};

export type CallStore = ReturnType<typeof createCallStore>;

/**
 * The durable memory of calls: one effect for each key. Every method is one atomic script, and its write is on disk when
 * it resolves, `renew` excepted. Nothing is retried here. Throws `runner.store_unavailable`; the outcome is then unknown.
 */
export function createCallStore({ durable, owner, leaseMs, memoryMs }: StoreOptions) {
  const begin = durableScript(durable, BEGIN);
  const renew = script(durable.redis, RENEW);
  const finish = durableScript(durable, FINISH);
  const fail = durableScript(durable, FAIL);

  return {
    /** Marks the call as running here, under a lease, or tells what is known of it. */
    async begin(call: CallSummary): Promise<Begun> {
      const { callId: id, jobId, bytes, sha256 } = call;
      const args = [id, fingerprint(call), owner, leaseMs, memoryMs, jobId, bytes, sha256];
      return toBegun(
        (await begin([runnerKeys.call(id), runnerKeys.calls, runnerKeys.due], args)) as string[],
      );
    },

    /** Prolongs the lease; false if the call no longer belongs to this runner. */
    async renew(id: string): Promise<boolean> {
      return (await renew([runnerKeys.call(id), runnerKeys.due], [id, owner, leaseMs, memoryMs])) === 1;
    },

    /** Remembers the answer of a call that was run. Returns the first answer: another runner may have been faster. */
    async finish(call: CallSummary, answer: HttpAnswer): Promise<HttpAnswer> {
      const { callId: id, jobId, bytes, sha256 } = call;
      const args = [id, memoryMs, fingerprint(call), jobId, bytes, sha256, ...toFields(answer)];
      const first = await finish([runnerKeys.call(id), runnerKeys.calls, runnerKeys.due], args);
      return first === null ? answer : toAnswer(first as string[]);
    },

    /**
     * Ends the run without an answer, so that the next request with this key runs the call again. A short call keeps the
     * TTL it had. A long call is kept, since its sender was told that it will be run.
     */
    async fail(id: string, { code, reason, status, attempts }: Failure): Promise<void> {
      await fail([runnerKeys.call(id), runnerKeys.due], [id, owner, code, reason, status, attempts ?? ""]);
    },
  };
}

/** A script whose write is on disk when it resolves. Throws `runner.store_unavailable`. */
export function durableScript(durable: DurableRedis, lua: string): Script {
  const run = script(durable.redis, lua);
  return async (keys, args) => {
    try {
      return await durable.write(() => run(keys, args));
    } catch (cause) {
      throw storeUnavailable(cause);
    }
  };
}

export function storeUnavailable(cause: unknown): AppError {
  return new AppError("runner.store_unavailable", { reason: messageOf(cause), retryAfterMs: 2000, cause });
}

/** What a key is bound to: one job and one body. */
export function fingerprint({ jobId, sha256 }: Pick<CallSummary, "jobId" | "sha256">): string {
  return `${jobId}:${sha256}`;
}

function toBegun([kind, ...answer]: string[]): Begun {
  switch (kind) {
    case "ANSWERED":
      return { kind: "answered", answer: toAnswer(answer) };
    case "RUNNING":
      return { kind: "running" };
    case "REUSED":
      return { kind: "reused" };
    default:
      return { kind: "new" };
  }
}

export function toFields({ status, contentType, body }: HttpAnswer): [number, string, string] {
  return [status, contentType ?? "", body.toString("base64")];
}

function toAnswer([status, type, body]: string[]): HttpAnswer {
  return { status: Number(status), contentType: type || undefined, body: Buffer.from(body ?? "", "base64") };
}

const PAUSE_MS_MIN = 25;
const PAUSE_MS_MAX = 1000;

export type UntilStored = ReturnType<typeof createUntilStored>;

/**
 * Repeats an idempotent write of a call until it is on disk, however long Redis is away: a handler must not run again
 * because its end could not be recorded. Gives up, with the write's last error, once the runner has `ended`, or if a runner
 * of a later release has the call.
 */
export function createUntilStored({ ended, log }: { ended: AbortSignal; log: Logger }) {
  return async function untilStored<Result>(callId: string, write: () => Promise<Result>): Promise<Result> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await write();
      } catch (error) {
        if (attempt === 0) log.warn("job.store_delayed", { callId, reason: messageOf(error) });
        if (ended.aborted || (error instanceof AppError && isNewerError(error.cause))) throw error;
        await delay(Math.min(PAUSE_MS_MIN * 2 ** attempt, PAUSE_MS_MAX), ended).catch(() => {});
      }
    }
  };
}
