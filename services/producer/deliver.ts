import { startAttempt } from "../../shared/call/call-spans.ts";
import { type CallHead, parseJobCall, WEBHOOK_PATH } from "../../shared/call/job-call.ts";
import { encodeKeepArgs } from "../../shared/call/kept/kept.ts";
import { ENDED_STATES, isRecordState } from "../../shared/call/record-state.ts";
import {
  ACCEPTED,
  AWAITED,
  encodeAnswer,
  GONE,
  markOf,
  type ResultMark,
  type RunnerAnswer,
} from "../../shared/call/results/answer.ts";
import type { ProblemText } from "../../shared/call/results/result.ts";
import type { AttemptSummary } from "../../shared/call-search/history/block.ts";
import { AppError, messageOf, toAppError } from "../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { traceFields } from "../../shared/platform/text/trace-id.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { inSpan, tracer } from "../../shared/platform/traces/tracer.ts";
import { errorOf } from "../../shared/queue/call-log.ts";
import type { CallRecords } from "../../shared/queue/call-record.ts";
import { prepareCallback, prepareUnread } from "../../shared/queue/callbacks.ts";
import { headOf } from "../../shared/queue/failed-head.ts";
import { CRASHES } from "../../shared/queue/protocol.ts";
import { callFields, gateOf } from "../../shared/queue/queue-name.ts";
import { unreadable } from "../../shared/redis/unreadable.ts";
import type { Verdict } from "./consumer/finish.ts";
import type { Hold } from "./consumer/hold.ts";
import type { Deliver, Taken } from "./consumer/taken.ts";
import { outcomeOf, type RetryPolicy, RunnerFailure } from "./retry-policy.ts";
import type { Throttle } from "./throttle.ts";

/** The validated call and the decoded bytes of its body, for the runner. */
export type DeliveredCall = { readonly call: CallHead; readonly body: Buffer };

/**
 * Hands a call to a runner. Resolves when the runner has accepted the call; must tolerate the same `call.id` again. The code
 * of a thrown AppError decides what happens to the call (retry-policy.ts). After any other error the call is tried again. If
 * `hold` is lost while the injection runs, `hold.signal` is aborted. Stop then if possible, because another worker may have
 * the call.
 *
 * For a call with `keep_result`, the answer is kept as its result; without an answer there is no result. For a call with a
 * `callback`, an answer of 202 means that the call ends when its result is delivered.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing is one that has no answer
export type Inject = (delivered: DeliveredCall, hold: Hold) => Promise<RunnerAnswer | undefined | void>;

/** Delay before a call is tried again whose failed attempt could not be recorded. */
const RECORD_PAUSE_MS = 1000;

type DeliverDeps = {
  inject: Inject;
  /** Returns whether the runner of a job is away. */
  isAway: (gate: string) => boolean;
  records: CallRecords;
  policy: RetryPolicy;
  throttle: Throttle;
  /** Adds a call to the history once its runner has accepted it. */
  archive: (call: CallHead, tried: AttemptSummary) => void;
  /** Number of partitions. Each applies an equal share of the size limit on kept calls. */
  partitions: number;
  /** Maximum size of a kept answer. If an answer is longer, only its status and type are kept. */
  resultBytesMax: number;
  /**
   * Clock of Redis. Gateways take the time of acceptance from it too, so a call's latency is correct even if the clocks of
   * the machines differ.
   */
  clock: Clock;
  log: Logger;
  workerId: string;
};

/**
 * @internal Creates the function that brings one taken call to the runner. Every outcome leads to one verdict, one change of
 * the record and one event.
 */
export function createDeliver(deps: DeliverDeps): Deliver {
  const { inject, clock, log } = deps;
  const { injected, failed, failUnreadable } = createOutcomes(deps);

  async function deliver(taken: Taken, hold: Hold): Promise<Verdict> {
    const { record } = taken;
    if (ENDED_STATES.some((state) => state === record)) return ended(taken, String(record));
    if (record !== undefined && !isRecordState(record)) return failUnreadable(taken);
    const delivered = toDelivered(taken);
    if (delivered instanceof AppError) return failed(taken, { error: delivered, injectMs: 0 });
    return inSpan(startAttempt(delivered.call, taken), () => attemptCall(taken, delivered, hold));
  }

  async function attemptCall(taken: Taken, delivered: DeliveredCall, hold: Hold): Promise<Verdict> {
    const { call } = delivered;
    failpoint("producer.after_take");
    const injection = await injectWhileHeld(delivered, hold);
    if (injection === "not held") return requeued(taken, false, call);
    const { answer, error, injectMs } = injection;
    if (error === undefined) {
      failpoint("producer.after_post");
      const result = resultOf(call, answer);
      return injected(taken, call, { injectMs, result, kept: keptOf(call, answer, result) });
    }
    tracer?.current()?.fail(error.code);
    const { peer, effect } = outcomeOf(error);
    if (hold.lost) return requeued(taken, effect !== "no", call);
    if (peer === "unreachable") return unreachable(taken, error);
    if (effect === "yes" && isLastAttempt(taken, error)) {
      log.warn("call.result_lost", { ...callLogFields(taken, call), reason: error.message });
      return injected(taken, call, { injectMs, result: GONE, kept: keptOf(call, undefined, GONE) });
    }
    return failed(taken, { error, injectMs }, call);
  }

  /**
   * Returns whether this was the last attempt. Only used if the runner has executed the call and its answer was lost. Further
   * attempts only serve to get that answer, so after the last one the call counts as injected and does not fail.
   */
  function isLastAttempt({ attempt, queue }: Taken, error: AppError): boolean {
    return deps.policy.judge(error, attempt, gateOf(queue)).kind === "fail";
  }

  function resultOf(call: CallHead, answer: RunnerAnswer | undefined): ResultMark | undefined {
    if (answer === undefined) return undefined;
    if (call.keep_result) return markOf(answer, deps.resultBytesMax, clock());
    return call.callback !== undefined && answer.status === ACCEPTED ? AWAITED : undefined;
  }

  /**
   * Encodes the settings for keeping the delivered call, and the runner's answer to keep with it. A 202 is not stored as the
   * answer, because the result comes later.
   */
  function keptOf(
    call: CallHead,
    answer: RunnerAnswer | undefined,
    result: ResultMark | undefined,
  ): Buffer | undefined {
    const told = result === AWAITED ? undefined : answer;
    return encodeKeepArgs(call, told && encodeAnswer(told, deps.resultBytesMax, clock()), deps.partitions);
  }

  async function injectWhileHeld(parsed: DeliveredCall, hold: Hold): Promise<Injection | "not held"> {
    if (hold.lost) return "not held";
    failpoint("producer.before_post");
    const startedAt = performance.now();
    const [answer, error] = await inject(parsed, hold).then(
      (answered) => [answered ?? undefined, undefined] as const,
      (thrown) => [undefined, toAppError(thrown)] as const,
    );
    hold.isAnswered = true;
    return { answer, error, injectMs: Math.round(performance.now() - startedAt) };
  }

  /**
   * Handles a call whose record shows that it has ended, for example because it was added again after that. Such a call is
   * not sent to the runner.
   */
  function ended({ id, queue }: Taken, state: string): Verdict {
    log.info("call.already_ended", { ...callFields(id, queue), state });
    return { kind: "ended" };
  }

  /**
   * Decides about a call whose runner is unreachable. Nothing was sent, so the attempt does not count. If the runner counts
   * as away, the call returns to the waiting calls of its job, and producers take none of them until the runner is back.
   * Otherwise it is tried again after a delay.
   */
  function unreachable({ attempt, queue }: Taken, error: AppError): Verdict {
    const gate = gateOf(queue);
    return deps.isAway(gate) ? { kind: "requeue" } : deps.policy.judge(error, attempt, gate);
  }

  /**
   * Returns the call to its queue, because this worker is stopping or has lost the call. The attempt does not count,
   * because the runner is not the cause.
   */
  function requeued(taken: Taken, unsure: boolean, call: CallHead): Verdict {
    log.warn("call.released", callLogFields(taken, call));
    return { kind: "requeue", unsure };
  }

  return deliver;
}

type Injection = { answer: RunnerAnswer | undefined; error: AppError | undefined; injectMs: number };

/** Parses the call for its runner. Returns an error if the call must not be sent. */
function toDelivered({ takeStored, crashes }: Taken): DeliveredCall | AppError {
  if (crashes >= CRASHES.untilFailed) {
    const reason = `${crashes} producers ended while this call was in flight, the last one with no other call`;
    return new AppError("call.poison_pill", { reason });
  }
  try {
    return parseJobCall(takeStored());
  } catch (error) {
    return toAppError(error);
  }
}

type Success = { injectMs: number; result: ResultMark | undefined; kept: Buffer | undefined };

/** Creates the functions that turn the result of an attempt into a record, an event and a verdict. */
function createOutcomes({ records, policy, throttle, archive, clock, log, workerId }: DeliverDeps) {
  function injected(taken: Taken, call: CallHead, { injectMs, result, kept }: Success): Verdict {
    throttle.succeeded(gateOf(taken.queue));
    const onRecorded = () => {
      log.info("call.injected", {
        ...attemptLogFields(taken),
        ...pathOf(call),
        injectMs,
        endToEndMs: clock() - call.accepted_at,
        heldMs: Math.max(0, taken.heldUntil - call.accepted_at),
        ...traceFields(call.traceparent),
      });
      archive(call, { attempts: taken.attemptsBefore + 1, ms: injectMs, error: errorOf(taken.lastFailure) });
    };
    return { kind: "injected", onRecorded, result, callback: prepareCallback(call, clock()), kept };
  }

  /** Records a failed attempt. `call` is undefined if nothing was sent to the runner. */
  async function failed(
    taken: Taken,
    { error, injectMs }: { error: AppError; injectMs: number },
    call?: CallHead,
  ): Promise<Verdict> {
    const { id, queue, attempt } = taken;
    const now = clock();
    const verdict = policy.judge(error, attempt, gateOf(queue));
    if (call !== undefined) throttle.failed(gateOf(queue), id, error);
    const unsure = call !== undefined && outcomeOf(error).effect !== "no";
    try {
      await recordFailure(taken, { error, call, injectMs }, verdict, now);
    } catch (cause) {
      return { ...notRecorded(taken, cause), unsure };
    }
    const { code, message: reason } = error;
    const about = { ...pathOf(call), ...traceFields(call?.traceparent) };
    const fields = { ...attemptLogFields(taken), ...about, code, reason, injectMs };
    if (verdict.kind === "fail") {
      log.error("call.failed", fields);
      const failure = { code, ...problemOf(error) };
      return call === undefined
        ? { ...verdict, callback: prepareUnread(taken, now, failure) }
        : { ...verdict, unsure, head: headOf(call), callback: prepareCallback(call, now, failure) };
    }
    const spent = verdict.kind === "retry";
    log.warn("call.delayed", { ...fields, spent, waitMs: waitMs(verdict) });
    return { ...verdict, unsure };
  }

  /**
   * Postpones a call whose failure could not be recorded. The attempt does not count, because the log must have every attempt
   * that counts.
   */
  function notRecorded({ id, queue }: Taken, cause: unknown): Verdict {
    log.error("call.record_failed", { ...callFields(id, queue), reason: messageOf(cause) });
    return { kind: "postpone", afterMs: RECORD_PAUSE_MS };
  }

  /**
   * Fails a call whose record cannot be read, without an attempt or a callback. Only the record could show whether the call
   * has already ended, and another attempt could then run the job twice. So an operator must decide. The record stays
   * unchanged.
   */
  function failUnreadable(taken: Taken): Verdict {
    const error = unreadable(`the record of ${taken.id}`);
    const { code, message: reason } = error;
    log.error("call.failed", { ...attemptLogFields(taken), code, reason, injectMs: 0 });
    return policy.judge(error, taken.attempt, gateOf(taken.queue));
  }

  async function recordFailure(
    taken: Taken,
    { error, call, injectMs }: { error: AppError; call: CallHead | undefined; injectMs: number },
    verdict: Verdict,
    now: number,
  ): Promise<void> {
    const { code, message: reason } = error;
    const attempt = { at: now, code, reason, worker: workerId, ms: injectMs, status: statusOf(error) };
    if (call !== undefined) await records.attemptFailed(taken, attempt, taken.queuedAt);
    failpoint("producer.after_attempt_recorded");
    if (verdict.kind !== "fail") return;
    const keepsResult = call && call.keep_result === true;
    await records.failed(taken, now, { keepsResult, code, problem: problemOf(error) });
    failpoint("producer.after_failed");
  }

  return { injected, failed, failUnreadable };
}

/** Fields that identify a call in the log. */
function callLogFields({ id, queue }: Taken, { traceparent }: CallHead) {
  return { ...callFields(id, queue), ...traceFields(traceparent) };
}

/** Fields that identify an attempt in the log. */
function attemptLogFields({ id, queue, attempt, attemptsBefore }: Taken) {
  return { ...callFields(id, queue), attempt, attemptsBefore };
}

function statusOf(error: AppError): number | undefined {
  return error instanceof RunnerFailure ? error.status : undefined;
}

function problemOf(error: AppError): ProblemText | undefined {
  return error instanceof RunnerFailure ? error.problem : undefined;
}

/** Returns the endpoint that received a webhook. */
function pathOf(call: CallHead | undefined): { path?: string } {
  const path = call?.metadata[WEBHOOK_PATH];
  return path === undefined ? {} : { path };
}

function waitMs(verdict: Verdict): number {
  return verdict.kind === "retry" || verdict.kind === "postpone" ? verdict.afterMs : 0;
}
