import { sha256 as sha256Of } from "../../shared/platform/crypto/compare.ts";
import { AppError, messageOf, RETRY_AFTER_MS } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { cut } from "../../shared/platform/text/cut.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import { defineScript, type Reply, type Run, type Script } from "../../shared/redis/define-script.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { bytes, flag, oneOf, optional, tuple } from "../../shared/redis/reply.ts";
import { isUnreadable } from "../../shared/redis/unreadable.ts";
import beginCallLua from "./begin-call.lua";
import { type Outgoing, outgoingWords } from "./delivery-store.ts";
import failCallLua from "./fail-call.lua";
import finishCallLua from "./finish-call.lua";
import type { KeptAnswers } from "./kept-answers.ts";
import { longCallAnswer, toAnswer } from "./remembered-answer.ts";
import renewLeaseLua from "./renew-lease.lua";
import type { HttpAnswer } from "./router.ts";

/*
 * The data of a call that all runners on one Redis share. The keys are in shared/redis/keys.ts.
 *
 *   (none) ─begin─► RUNNING ─finish─► DONE          a short call; RUNNING counts only until its lease expires
 *                     │  ▲
 *                fail ▼  │ begin
 *                   FAILED
 *
 *   (none) ─begin─► RUNNING ─store─► STORED ─claim─► RUNNING ─finish─► DONE          a long call
 *                                      ▲               │ └─fail─► FAILED (begin starts it again)
 *                                      ├────release────┘               │
 *                                      └──────────run again────────────┘
 *
 * Fields of a call. Their names are short, because a key is remembered for a long time (docs/sizing.md says how much memory
 * it takes):
 *   always          st, job, at, in and len (SHA-256 and length of the body)
 *   while it runs   owner, lease
 *   at its end      took (ms since `at`), status; if it is DONE out (SHA-256 of the answer's body, remembered-answer.ts);
 *                   if it FAILED code and reason. The reason is the handler's own text and is never listed.
 *   a long call     attempts (failed ones); until it is DONE runs, status, input (base64), input_type, metadata, traceparent
 * A FAILED long call has no TTL.
 *
 * Leases and due times follow Redis' clock, so that runners need not agree on the time.
 *
 * A full Redis refuses BEGIN, because its first write adds data. It never refuses RENEW, FINISH and FAIL: their first write
 * removes data, or is that of even-if-full.lua.
 */

/** Decoder for one of the three parts of a remembered answer (`Remembered` in remembered-answer.ts). */
const PART = optional(bytes);
const REMEMBERED = [PART, PART, PART] as const;

const BEGIN = defineScript({
  source: beginCallLua,
  keys: "call, answer, calls, due",
  args: "id, owner, leaseMs, memoryMs, listedMs, job, sha256, bytes",
  proof: "needed",
  strings: "bytes",
  reply: tuple(oneOf("NEW", "REUSED", "RUNNING", "STORED", "ANSWERED"), ...REMEMBERED),
});

const RENEW = defineScript({
  source: renewLeaseLua,
  keys: "call, due",
  args: "id, owner, leaseMs, memoryMs",
  proof: "expendable",
  reply: flag,
});

const FINISH = defineScript({
  source: finishCallLua,
  keys: "call, answer, calls, due, answers, answersBytes, delivery, deliveries",
  args: "id, memoryMs, listedMs, job, sha256, bytes, status, digest, toKeep, answerMs, answersBytesMax, ...outgoing",
  proof: "needed",
  strings: "bytes",
  reply: optional(tuple(...REMEMBERED)),
});

const FAIL = defineScript({
  source: failCallLua,
  keys: "call, due, delivery, deliveries",
  args: "id, owner, code, reason, status, attempts, listedMs, memoryMs, ...outgoing",
  proof: "needed",
  reply: flag,
});

/** Fields of a call from which its record is made, and by which a repeat of its request is recognized. */
type CallSummary = {
  readonly callId: string;
  readonly jobId: number;
  readonly bytes: number;
  readonly sha256: string;
};

/** Result of `begin`, which says what the store knows of the call's key. */
type Begun =
  | { kind: "new" }
  /** The call was answered before, and that answer is final. */
  | { kind: "answered"; answer: HttpAnswer }
  /** Another runner holds the lease of the call. */
  | { kind: "running" }
  /** The key was already used for another job or another body. */
  | { kind: "reused" };

/** Failure of a call. `status` is the HTTP status of the answer, `attempts` the number of failed runs of a long call. */
export type Failure = { code: string; reason: string; status: number; attempts?: number };

export type StoreOptions = {
  durable: DurableRedis;
  keys: RunnerKeys;
  /**
   * Unique id of this runner process. A runner may begin again a call that is RUNNING under its own id, for example if the
   * reply to `begin` was lost.
   */
  owner: string;
  leaseMs: number;
  /** Time for which a key is remembered after its call is DONE. */
  memoryMs: number;
};

export type CallStore = ReturnType<typeof createCallStore>;

/**
 * Creates the durable memory of calls, which ensures that the call of each key succeeds only once. Every method runs one
 * atomic script, and its write is on disk when it resolves. Only the write of `renew` may be lost. The store does not repeat
 * a failed write. It throws `runner.store_unavailable`; the write may then have happened or not.
 */
export function createCallStore({
  durable,
  keys,
  owner,
  leaseMs,
  memoryMs,
  answers,
}: StoreOptions & { answers: Pick<KeptAnswers, "answerMs" | "answersBytesMax" | "toKeep"> }) {
  const begin = durableScript(durable, BEGIN);
  const renew = RENEW.on(durable.redis);
  const finish = durableScript(durable, FINISH);
  const fail = durableScript(durable, FAIL);
  // A call is listed (GET /calls) for as long as its answer may be kept.
  const listedMs = Math.min(answers.answerMs, memoryMs);

  return {
    /**
     * Marks the call as running in this runner, under a lease. If the call must not run now, resolves with what is known of
     * it.
     */
    async begin({ callId: id, jobId: job, bytes, sha256 }: CallSummary): Promise<Begun> {
      const { call, answer, calls, due } = keys;
      const digest = Buffer.from(sha256, "hex");
      const words = { id, owner, leaseMs, memoryMs, listedMs, job, sha256: digest, bytes };
      return toBegun(id, await begin({ call: call(id), answer: answer(id), calls, due }, words));
    },

    /** Renews the lease; resolves with false if the call no longer belongs to this runner. */
    renew: (id: string): Promise<boolean> =>
      renew({ call: keys.call(id), due: keys.due }, { id, owner, leaseMs, memoryMs }),

    /**
     * Stores the answer of a call that has run. In the same step, stores the result that must be delivered, if there is one.
     * Resolves with the first answer, because another runner may have run the same call and been faster.
     */
    async finish(
      { callId: id, jobId: job, bytes, sha256 }: CallSummary,
      answer: HttpAnswer,
      outgoing?: Outgoing,
    ): Promise<HttpAnswer> {
      const { call, answer: answerOf, calls, due, answers: kept, answersBytes } = keys;
      const touched = { call: call(id), answer: answerOf(id), calls, due, answers: kept, answersBytes };
      const first = await finish(
        { ...touched, delivery: keys.delivery(id), deliveries: keys.deliveries },
        {
          id,
          memoryMs,
          listedMs,
          job,
          sha256: Buffer.from(sha256, "hex"),
          bytes,
          status: answer.status,
          digest: sha256Of(answer.body),
          toKeep: answers.toKeep(id, answer),
          answerMs: listedMs,
          answersBytesMax: answers.answersBytesMax,
          outgoing: outgoingWords(outgoing),
        },
      );
      return first === undefined ? answer : toAnswer(id, first);
    },

    /**
     * Ends a run that gave no answer to keep, so that the next request with this key runs the call again. The record of a
     * failed short call expires when the call leaves the list. That of a long call is kept, because its sender got a 202. Its
     * failure is delivered like a result, if there is an `outgoing`.
     */
    async fail(id: string, failure: Failure, outgoing?: Outgoing): Promise<void> {
      const { code, status, attempts } = failure;
      const { call, due, delivery, deliveries } = keys;
      await fail(
        { call: call(id), due, delivery: delivery(id), deliveries },
        {
          id,
          owner,
          code,
          reason: cut(failure.reason, REASON_MAX),
          status,
          attempts,
          listedMs,
          memoryMs,
          outgoing: outgoingWords(outgoing),
        },
      );
    },
  };
}

/** Maximum number of characters kept of a handler's error message. */
const REASON_MAX = 1000;

/**
 * Binds a script to the connection, so that its write is on disk when it resolves. Throws `runner.store_unavailable` and
 * `record.unreadable`.
 */
export function durableScript<Keys, Args, Reply>(
  durable: DurableRedis,
  script: Script<Keys, Args, Reply>,
): Run<Keys, Args, Reply> {
  const run = script.on(durable.redis);
  return async (...given) => {
    try {
      return await durable.write(() => run(...given));
    } catch (cause) {
      throw isUnreadable(cause) ? cause : storeUnavailable(cause);
    }
  };
}

export function storeUnavailable(cause: unknown): AppError {
  return new AppError("runner.store_unavailable", {
    reason: messageOf(cause),
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });
}

/** Returns a text that identifies the job and the body of a request. Requests with the same key must have the same text. */
export function fingerprint({ jobId, sha256 }: Pick<CallSummary, "jobId" | "sha256">): string {
  return `${jobId}:${sha256}`;
}

function toBegun(id: string, [kind, ...remembered]: Reply<typeof BEGIN>): Begun {
  switch (kind) {
    case "ANSWERED":
      return { kind: "answered", answer: toAnswer(id, remembered) };
    case "STORED":
      return { kind: "answered", answer: longCallAnswer(id) };
    case "RUNNING":
      return { kind: "running" };
    case "REUSED":
      return { kind: "reused" };
    case "NEW":
      return { kind: "new" };
  }
}

const PAUSE_MS_MIN = 25;
const PAUSE_MS_MAX = 1000;

export type UntilStored = ReturnType<typeof createUntilStored>;

/**
 * Creates the function that repeats an idempotent write about a call until it is on disk, even if Redis is away for long.
 * Without this, a handler that has ended would run again only because its end was not recorded. Throws the last error of the
 * write if the runner has `ended` or if the record cannot be read.
 */
export function createUntilStored({ ended, log }: { ended: AbortSignal; log: Logger }) {
  return async function untilStored<Result>(callId: string, write: () => Promise<Result>): Promise<Result> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await write();
      } catch (error) {
        if (attempt === 0) log.warn("job.store_delayed", { callId, reason: messageOf(error) });
        if (ended.aborted || isUnreadable(error)) throw error;
        await delay(Math.min(PAUSE_MS_MIN * 2 ** attempt, PAUSE_MS_MAX), ended).catch(() => {});
      }
    }
  };
}
