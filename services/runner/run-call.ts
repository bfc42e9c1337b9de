import { validateHeaderValue } from "node:http";
import { platformKeys } from "../../shared/call/job-call.ts";
import { AppError, messageOf, toAppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import { failpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import type { Fields, Logger } from "../../shared/platform/log/logger.ts";
import type { CheckedRequest } from "./authenticate.ts";
import { type CallStore, type Failure, fingerprint, type UntilStored } from "./call-store.ts";
import type { Leases } from "./leases.ts";
import type { LongStore } from "./long-store.ts";
import type { ProgressReporter } from "./progress.ts";
import { longCallAnswer } from "./remembered-answer.ts";

import type { Answer, HttpAnswer, Job, JobContext, JobRequest } from "./router.ts";

export type Outcome = {
  readonly answer: HttpAnswer;
  readonly kind: "finished" | "failed" | "stored" | "replayed";
};

export type RunCall = (request: CheckedRequest) => Promise<Outcome>;

/**
 * Creates the function that handles the call of a request: it runs the call, or returns its stored answer. A call that
 * succeeded never runs again while its key is remembered. The function throws `runner.busy` if the call is running in this
 * process, or under another runner's lease. It throws `runner.key_reused` if the key was used for another job or body, and
 * `runner.throttled` if the store is unavailable.
 *
 * This process also remembers each call that it has begun until the end of the call is on disk. So it does not begin the call
 * a second time, even after the call's lease has expired.
 */
export function createRunCall({
  calls,
  leases,
  runShort,
  storeLong,
}: {
  calls: CallStore;
  leases: Leases;
  runShort: (request: CheckedRequest) => Promise<HttpAnswer>;
  storeLong: (request: CheckedRequest) => Promise<HttpAnswer>;
}): RunCall {
  const inFlight = new Map<string, string>();

  const runCall: RunCall = async (request) => {
    const { callId } = request;
    const boundTo = fingerprint(request);
    const here = inFlight.get(callId);
    if (here !== undefined) throw here === boundTo ? busy(callId) : reused(callId);
    inFlight.set(callId, boundTo);
    return await begin(request).finally(() => inFlight.delete(callId));
  };

  async function begin(request: CheckedRequest): Promise<Outcome> {
    const begun = await calls.begin(request).catch(refuseUnbegun);
    if (begun.kind === "answered") return { answer: begun.answer, kind: "replayed" };
    if (begun.kind === "running") throw busy(request.callId);
    if (begun.kind === "reused") throw reused(request.callId);
    failpoint("runner.after_begin");
    return await run(request);
  }

  async function run(request: CheckedRequest): Promise<Outcome> {
    leases.hold(request.callId);
    try {
      if (request.job.long) return { answer: await storeLong(request), kind: "stored" };
      const answer = await runShort(request);
      return { answer, kind: isSuccess(answer) ? "finished" : "failed" };
    } finally {
      leases.drop(request.callId);
    }
  }

  return runCall;
}

/**
 * Throws a 429 if the store is unavailable. The producer does not count a 429 as an attempt, which is right: the call has not
 * run, and any other call would get the same answer.
 */
function refuseUnbegun(cause: unknown): never {
  if (!(cause instanceof AppError) || cause.code !== "runner.store_unavailable") throw cause;
  const { message, retryAfterMs } = cause;
  throw new AppError("runner.throttled", {
    reason: `the runner's store is unavailable: ${message}`,
    publicDetail: "the runner's store is unavailable",
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    cause,
  });
}

function busy(callId: string): AppError {
  return new AppError("runner.busy", { reason: `${callId} is running`, retryAfterMs: 1000 });
}

function reused(callId: string): AppError {
  const detail = "the Idempotency-Key was used for another job or another body";
  return new AppError("runner.key_reused", { reason: `${detail}: ${callId}`, publicDetail: detail });
}

/**
 * Creates the functions that run a short call and store a long call, once the call has begun. If one of them fails, the next
 * request with the same key begins the call again.
 */
export function createRunBegun({
  calls,
  longStore,
  execute,
  untilStored,
  wake,
  log,
}: {
  calls: CallStore;
  longStore: LongStore;
  execute: Execute;
  untilStored: UntilStored;
  /** Makes this runner check now for long calls that wait. */
  wake: () => void;
  log: Logger;
}) {
  /** Runs a short call. A 2xx answer is on disk when this resolves, and is final; any other answer is not remembered. */
  async function runShort(request: CheckedRequest): Promise<HttpAnswer> {
    const { callId, job } = request;
    const answer = await orFail(callId, () => execute(job, request));
    if (!isSuccess(answer)) {
      const { status } = answer;
      await fail(callId, { code: "runner.handler_failed", reason: `the job answered ${status}`, status });
      return answer;
    }
    const first = await untilStored(callId, () => calls.finish(request, answer));
    failpoint("runner.after_remembered");
    return first;
  }

  /** Stores a long call with its input, once the job has accepted the input. The call is on disk when this resolves. */
  async function storeLong(request: CheckedRequest): Promise<HttpAnswer> {
    const { callId, job } = request;
    const answer = longCallAnswer(callId);
    const stored = await orFail(callId, async () => {
      job.prepare(request);
      return await longStore.store(request);
    });
    if (!stored) throw busy(callId);
    failpoint("runner.after_stored");
    wake();
    return answer;
  }

  async function orFail<Result>(callId: string, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (thrown) {
      const error = toAppError(thrown);
      await fail(callId, { code: error.code, reason: error.message, status: CODES[error.code].status });
      throw error;
    }
  }

  /**
   * Records a failure. Never rejects. A failed write is not repeated. This runner may begin its own call again at once, and
   * others may when the lease has expired.
   */
  async function fail(callId: string, failure: Failure): Promise<void> {
    try {
      await calls.fail(callId, failure);
    } catch (error) {
      log.warn("job.store_delayed", { callId, reason: messageOf(error) });
    }
  }

  return { runShort, storeLong };
}

/**
 * Runs a job's handler once. Throws `runner.input_rejected` if the input is refused; the handler does not run then. Throws
 * `runner.handler_failed` for any error of the handler.
 */
export type Execute = (job: Job, request: JobRequest, run?: Run) => Promise<HttpAnswer>;

/** The run of a long job: the signal that ends it early, and the reporter of its progress. */
type Run = { signal: AbortSignal; reporter: ProgressReporter };

export function createExecute({
  metadataPrefix,
  ended,
  log,
}: {
  metadataPrefix: string;
  /** Aborted once this runner no longer waits for handlers. */
  ended: AbortSignal;
  log: Logger;
}): Execute {
  const serviceKey = platformKeys(metadataPrefix).serviceId.toUpperCase();

  function toContext(job: Job, { callId, jobId, metadata }: JobRequest, run: Run | undefined): JobContext {
    const callLog = withFields(log, { callId, jobId, job: job.name });
    const serviceId = Number(metadata[serviceKey] ?? Number.NaN);
    return {
      serviceId: Number.isSafeInteger(serviceId) ? serviceId : undefined,
      signal: run?.signal ?? ended,
      log: callLog,
      progress(fields) {
        callLog.info("job.progressed", fields);
        run?.reporter.report(fields);
      },
    };
  }

  return async function execute(job, request, run) {
    const handle = job.prepare(request);
    try {
      const answer = handle(toContext(job, request, run));
      failpoint("runner.in_handler");
      return toHttpAnswer(await answer);
    } catch (cause) {
      throw new AppError("runner.handler_failed", { reason: messageOf(cause), cause });
    } finally {
      failpoint("runner.after_handler");
    }
  };
}

function withFields(log: Logger, bound: Fields): Logger {
  return {
    info: (event, fields) => log.info(event, { ...fields, ...bound }),
    warn: (event, fields) => log.warn(event, { ...fields, ...bound }),
    error: (event, fields) => log.error(event, { ...fields, ...bound }),
  };
}

/** Validates and encodes a handler's answer. Throws if it cannot be sent. */
function toHttpAnswer(answer: Answer): HttpAnswer {
  const status = answer.status ?? 200;
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw new RangeError(`a job must answer with a status from 200 to 599, not ${status}`);
  if ("json" in answer) {
    return { status, contentType: "application/json", body: Buffer.from(JSON.stringify(answer.json)) };
  }
  if (answer.contentType !== undefined) validateHeaderValue("Content-Type", answer.contentType);
  return { status, contentType: answer.contentType, body: Buffer.from(answer.body ?? "") };
}

export function isSuccess({ status }: HttpAnswer): boolean {
  return status >= 200 && status < 300;
}
