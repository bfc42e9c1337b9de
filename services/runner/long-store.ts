import { runnerKeys } from "../../shared/redis/keys.ts";
import { EVEN_IF_FULL, NOW, script } from "../../shared/redis/script.ts";
import { unlessNewer, VERSIONS } from "../../shared/redis/version.ts";
import { durableScript, type StoreOptions } from "./call-store.ts";
import { longCallAnswer } from "./remembered-answer.ts";
import type { JobRequest } from "./router.ts";

/* ARGV: id, owner, status, input, input_type, metadata, traceparent. */
const STORE = `${NOW}
local id = ARGV[1]
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'st', 'STORED', 'status', ARGV[3], 'input', ARGV[4], 'input_type', ARGV[5], 'metadata', ARGV[6],
  'traceparent', ARGV[7], 'attempts', 0, 'runs', 0)
redis.call('HDEL', KEYS[1], 'owner', 'lease')
redis.call('PERSIST', KEYS[1])
redis.call('ZADD', KEYS[2], '+inf', id)
redis.call('ZADD', KEYS[3], now, id)
return 1`;

/* ARGV: how many at most. */
const DUE = `${NOW}
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])`;

/* ARGV: id, owner, leaseMs. KEYS[2] holds the due time; a call that cannot be run leaves it. A later release's call is put off,
 * so that it does not stand before others. */
const CLAIM = `${EVEN_IF_FULL}${NOW}
local id = ARGV[1]
local due = redis.call('ZSCORE', KEYS[2], id)
if not due or tonumber(due) > now then return false end
local call = redis.call('HMGET', KEYS[1], 'st', 'job', 'in', 'sha256', 'input', 'input_type', 'metadata',
  'traceparent', 'attempts', 'v')
if tonumber(call[10] or 1) > ${VERSIONS.runnerCall} then
  redis.call('ZADD', KEYS[2], now + 5000, id)
  return false
end
if (call[1] ~= 'STORED' and call[1] ~= 'RUNNING') or not call[5] then
  redis.call('ZREM', KEYS[2], id)
  return false
end
redis.call('HSET', KEYS[1], 'st', 'RUNNING', 'owner', ARGV[2], 'lease', now + ARGV[3])
redis.call('ZADD', KEYS[2], now + ARGV[3], id)
call[10] = redis.call('HINCRBY', KEYS[1], 'runs', 1)
return call`;

/* ARGV: id, owner, pauseMs, attempts. */
const GIVE_BACK = `${NOW}
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 'owner', 'lease')
redis.call('HSET', KEYS[1], 'st', 'STORED', 'attempts', ARGV[4])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
return 1`;

/* ARGV: id, status. A short call has no input and cannot be run again. A failure that is not delivered yet is none any more. */
const RUN_AGAIN = `${NOW}${unlessNewer("runnerCall")}
local call = redis.call('HMGET', KEYS[1], 'st', 'runs')
if not call[1] then return 'UNKNOWN' end
if call[1] == 'STORED' then return 'WAITING' end
if call[1] ~= 'FAILED' then return call[1] end
if not call[2] then return 'SHORT' end
redis.call('HDEL', KEYS[1], 'took', 'finished', 'code', 'reason')
redis.call('HSET', KEYS[1], 'st', 'STORED', 'status', ARGV[2], 'attempts', 0)
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[4], ARGV[1])
return 'STORED'`;

/** A long call that this runner claimed in order to run it. */
export type StoredCall = {
  readonly request: JobRequest;
  readonly bytes: number;
  readonly sha256: string;
  /** How many of its runs ended with an error. */
  readonly attemptsFailed: number;
  /** How often it was claimed, this time included. Above 1, a run was interrupted or failed before. */
  readonly runs: number;
};

/** STORED if the call will run again; otherwise why not: it is unknown, short, or in a state other than FAILED. */
type RunAgainResult = "STORED" | "UNKNOWN" | "WAITING" | "RUNNING" | "DONE" | "SHORT";

export type LongStore = ReturnType<typeof createLongStore>;

/**
 * Keeps long calls with their input until they are done. Every method is one atomic script, and its write is on disk when
 * it resolves. Nothing is retried here. Throws `runner.store_unavailable`; the outcome is then unknown.
 */
export function createLongStore({ durable, owner, leaseMs }: StoreOptions) {
  const store = durableScript(durable, STORE);
  const due = script(durable.redis, DUE);
  const claim = durableScript(durable, CLAIM, "bytes");
  const giveBack = durableScript(durable, GIVE_BACK);
  const runAgain = durableScript(durable, RUN_AGAIN);

  return {
    /** Stores a call that was begun here; false if the call no longer belongs to this runner. */
    async store(request: JobRequest): Promise<boolean> {
      const { callId: id, body, contentType = "", metadata, traceparent = "" } = request;
      const input = [body.toString("base64"), contentType, JSON.stringify(metadata), traceparent];
      const args = [id, owner, longCallAnswer(id).status, ...input];
      return (await store([runnerKeys.call(id), runnerKeys.calls, runnerKeys.due], args)) === 1;
    },

    /** Ids of calls that wait or whose lease lapsed, the longest due first. Only reads. */
    async due(countMax: number): Promise<string[]> {
      return (await due([runnerKeys.due], [countMax])) as string[];
    },

    /** Claims a due call under a lease; undefined if another runner was faster. */
    async claim(id: string): Promise<StoredCall | undefined> {
      const reply = await claim([runnerKeys.call(id), runnerKeys.due], [id, owner, leaseMs]);
      return reply === null ? undefined : toStoredCall(id, reply as ClaimReply);
    },

    /** Gives a call back, so that any runner may claim it after the pause. Changes nothing if another runner has it. */
    async giveBack(id: string, pauseMs: number, attemptsFailed: number): Promise<void> {
      await giveBack([runnerKeys.call(id), runnerKeys.due], [id, owner, pauseMs, attemptsFailed]);
    },

    /** Gives a FAILED long call fresh attempts; it is due at once. Changes no other call. */
    async runAgain(id: string): Promise<RunAgainResult> {
      return (await runAgain(
        [runnerKeys.call(id), runnerKeys.due, runnerKeys.delivery(id), runnerKeys.deliveries],
        [id, longCallAnswer(id).status],
      )) as RunAgainResult;
    },
  };
}

/** All of it is text, except for the body's SHA-256; the first releases stored that as hex, in a field of its own. */
function toStoredCall(callId: string, reply: ClaimReply): StoredCall {
  const [, job, digest, sha256, input, inputType, metadata, traceparent, attempts, runs] = reply;
  const body = Buffer.from(String(input ?? ""), "base64");
  return {
    request: {
      callId,
      jobId: Number(job),
      body,
      contentType: inputType?.toString() || undefined,
      metadata: JSON.parse(String(metadata ?? "{}")) as Record<string, string>,
      traceparent: traceparent?.toString() || undefined,
    },
    bytes: body.length,
    sha256: digest?.toString("hex") ?? String(sha256 ?? ""),
    attemptsFailed: Number(attempts),
    runs: Number(runs),
  };
}

type ClaimReply = readonly (Buffer | null)[];
