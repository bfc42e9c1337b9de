import { sha256 as sha256Of } from "../../shared/crypto/compare.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { KEEP } from "../../shared/redis/kept-values.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { EVEN_IF_FULL, NOW, type Script, script } from "../../shared/redis/script.ts";
import { isNewerError, unlessNewer, VERSIONS } from "../../shared/redis/version.ts";
import { cut } from "../../shared/text/cut.ts";
import { delay } from "../../shared/time/clock.ts";
import { DELIVER_LATER, type Outgoing, outgoingWords } from "./delivery-store.ts";
import type { KeptAnswers } from "./kept-answers.ts";
import { longCallAnswer, type Remembered, toAnswer } from "./remembered-answer.ts";
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
 * The fields of a call, short because a key is remembered for long (docs/operations.md says what one takes):
 *   always          v, st, job, at, in and len (SHA-256 and length of the body)
 *   while it runs   owner, lease
 *   at its end      took (ms since `at`), status; if it is DONE out (SHA-256 of the answer's body, remembered-answer.ts);
 *                   if it FAILED code and reason. The reason is the handler's own text and is never listed
 *   a long call     attempts (failed ones); until it is DONE runs, status, input (base64), input_type, metadata, traceparent
 * A FAILED long call has no TTL. Hashes with `v` 1 have sha256 (hex) for in, bytes for len, finished for took, request (job
 * and sha256), and type and answer (base64) for out.
 *
 * Leases and due times follow Redis' clock, so that runners need not agree on the time.
 *
 * A full Redis refuses BEGIN, which takes a call, because it adds something first. The scripts for a call that was taken are never
 * refused: they begin with a removal, or with EVEN_IF_FULL.
 */

/** Lua: what is remembered of the answer of the call, as `Remembered`. */
const REMEMBERED = `
local function remembered()
  local call = redis.call('HMGET', KEYS[1], 'status', 'out', 'type', 'answer')
  return {call[1], call[2], redis.call('GET', KEYS[2]), call[3], call[4]}
end`;

/*
 * ARGV: id, owner, leaseMs, memoryMs, listedMs, job, in, its hex, len. A long call is answered from the moment it is stored,
 * so a repeat gets its 202 while it waits and runs.
 */
const BEGIN = `${NOW}${unlessNewer("runnerCall")}${REMEMBERED}
local id, owner, lease, memory, listed, job = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local seen = redis.call('HMGET', KEYS[1], 'st', 'job', 'in', 'sha256', 'owner', 'lease', 'runs')
if seen[1] then
  if seen[2] ~= job or (seen[3] or seen[4]) ~= (seen[3] and ARGV[7] or ARGV[8]) then return {'REUSED'} end
  if seen[1] == 'DONE' then return {'ANSWERED', unpack(remembered())} end
  if seen[1] ~= 'FAILED' and seen[7] then return {'STORED'} end
  if seen[1] == 'RUNNING' and seen[5] ~= owner and tonumber(seen[6]) > now then return {'RUNNING'} end
end
redis.call('ZADD', KEYS[3], now + listed, id)
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.runnerCall}, 'st', 'RUNNING', 'job', job, 'at', now, 'in', ARGV[7], 'len', ARGV[9],
  'owner', owner, 'lease', now + lease)
redis.call('PEXPIRE', KEYS[1], memory + lease)
redis.call('ZREM', KEYS[4], id)
local unlisted = math.min(redis.call('ZCOUNT', KEYS[3], '-inf', now), 1000)
if unlisted > 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, unlisted - 1) end
return {'NEW'}`;

/* ARGV: id, owner, leaseMs, memoryMs. */
const RENEW = `${EVEN_IF_FULL}${NOW}
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'lease', now + ARGV[3])
redis.call('ZADD', KEYS[2], 'XX', now + ARGV[3], ARGV[1])
if redis.call('PTTL', KEYS[1]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4] + ARGV[3]) end
return 1`;

/*
 * ARGV: id, memoryMs, listedMs, job, in, len, status, out, what to keep of the answer or nothing, answerMs, answersBytesMax; and what is
 * to be delivered. Returns the first answer, if there is one. The hash is written anew, because one that was large stays a large structure.
 */
const FINISH = `${NOW}${unlessNewer("runnerCall")}${REMEMBERED}${KEEP}${DELIVER_LATER}
local id, memory, listed = ARGV[1], ARGV[2], ARGV[3]
local seen = redis.call('HMGET', KEYS[1], 'st', 'at', 'attempts')
if seen[1] == 'DONE' then return remembered() end
local at = seen[2] or now
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.runnerCall}, 'st', 'DONE', 'job', ARGV[4], 'at', at, 'in', ARGV[5], 'len', ARGV[6],
  'took', now - at, 'status', ARGV[7], 'out', ARGV[8])
if seen[3] and seen[3] ~= '0' then redis.call('HSET', KEYS[1], 'attempts', seen[3]) end
redis.call('PEXPIRE', KEYS[1], memory)
redis.call('ZADD', KEYS[3], now + listed, id)
redis.call('ZREM', KEYS[4], id)
keep(id, ARGV[9], ARGV[10], ARGV[11], KEYS[2], KEYS[5], KEYS[6])
deliverLater(KEYS[7], KEYS[8], id, memory, 12)
return false`;

/* ARGV: id, owner, code, reason, status, attempts or nothing, listedMs, memoryMs; and what is to be delivered. */
const FAIL = `${NOW}${DELIVER_LATER}
local seen = redis.call('HMGET', KEYS[1], 'owner', 'at')
if seen[1] ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 'owner', 'lease')
redis.call('HSET', KEYS[1], 'st', 'FAILED', 'took', now - (seen[2] or now), 'code', ARGV[3], 'reason', ARGV[4], 'status', ARGV[5])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'attempts', ARGV[6]) end
if redis.call('PTTL', KEYS[1]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[7]) end
redis.call('ZREM', KEYS[2], ARGV[1])
deliverLater(KEYS[3], KEYS[4], ARGV[1], ARGV[8], 9)
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
  /** How long a key is remembered once its call is DONE. */
  memoryMs: number;
};

export type CallStore = ReturnType<typeof createCallStore>;

/**
 * The durable memory of calls: one effect for each key. Every method is one atomic script, and its write is on disk when
 * it resolves, `renew` excepted. Nothing is retried here. Throws `runner.store_unavailable`; the outcome is then unknown.
 */
export function createCallStore({
  durable,
  owner,
  leaseMs,
  memoryMs,
  answers,
}: StoreOptions & { answers: Pick<KeptAnswers, "answerMs" | "answersBytesMax" | "toKeep"> }) {
  const begin = durableScript(durable, BEGIN, "bytes");
  const renew = script(durable.redis, RENEW);
  const finish = durableScript(durable, FINISH, "bytes");
  const fail = durableScript(durable, FAIL);
  // A call is listed for as long as its answer may be kept.
  const listedMs = Math.min(answers.answerMs, memoryMs);

  return {
    /** Marks the call as running here, under a lease, or tells what is known of it. */
    async begin({ callId: id, jobId, bytes, sha256 }: CallSummary): Promise<Begun> {
      const keys = [runnerKeys.call(id), runnerKeys.answer(id), runnerKeys.calls, runnerKeys.due];
      const args = [id, owner, leaseMs, memoryMs, listedMs, jobId, Buffer.from(sha256, "hex"), sha256, bytes];
      return toBegun(id, (await begin(keys, args)) as Buffer[]);
    },

    /** Prolongs the lease; false if the call no longer belongs to this runner. */
    async renew(id: string): Promise<boolean> {
      return (await renew([runnerKeys.call(id), runnerKeys.due], [id, owner, leaseMs, memoryMs])) === 1;
    },

    /**
     * Remembers the answer of a call that was run, and in the same step what is to be delivered of it. Returns the first answer: another
     * runner may have been faster.
     */
    async finish(
      { callId: id, jobId, bytes, sha256 }: CallSummary,
      answer: HttpAnswer,
      outgoing?: Outgoing,
    ): Promise<HttpAnswer> {
      const { call, answer: answerOf, calls, due, answers: kept, answersBytes } = runnerKeys;
      const digest = sha256Of(answer.body);
      const first = await finish(
        [
          call(id),
          answerOf(id),
          calls,
          due,
          kept,
          answersBytes,
          runnerKeys.delivery(id),
          runnerKeys.deliveries,
        ],
        [
          ...[id, memoryMs, listedMs, jobId, Buffer.from(sha256, "hex"), bytes, answer.status, digest],
          ...[answers.toKeep(id, answer) ?? "", listedMs, answers.answersBytesMax],
          ...outgoingWords(outgoing),
        ],
      );
      return first === null ? answer : toAnswer(id, first as unknown as Remembered);
    },

    /**
     * Ends the run without an answer, so that the next request with this key runs the call again. A short call is forgotten
     * when it is no longer listed. A long call is kept, since its sender was told that it will be run; its failure may be delivered.
     */
    async fail(id: string, failure: Failure, outgoing?: Outgoing): Promise<void> {
      const { code, reason, status, attempts = "" } = failure;
      const keys = [runnerKeys.call(id), runnerKeys.due, runnerKeys.delivery(id), runnerKeys.deliveries];
      const words = [id, owner, code, cut(reason, REASON_MAX), status, attempts, listedMs, memoryMs];
      await fail(keys, [...words, ...outgoingWords(outgoing)]);
    },
  };
}

/** How many characters are kept of what a handler said of its failure. */
const REASON_MAX = 1000;

/** A script whose write is on disk when it resolves. Throws `runner.store_unavailable`. */
export function durableScript(durable: DurableRedis, lua: string, reply?: "bytes"): Script {
  const run = script(durable.redis, lua, reply);
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

function toBegun(id: string, [kind, ...answer]: Buffer[]): Begun {
  switch (String(kind)) {
    case "ANSWERED":
      return { kind: "answered", answer: toAnswer(id, answer as unknown as Remembered) };
    case "STORED":
      return { kind: "answered", answer: longCallAnswer(id) };
    case "RUNNING":
      return { kind: "running" };
    case "REUSED":
      return { kind: "reused" };
    default:
      return { kind: "new" };
  }
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
