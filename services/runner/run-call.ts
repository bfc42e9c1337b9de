import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { CODES } from "../../shared/errors/codes.ts";
import { platformKeys } from "../../shared/job-call/metadata.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Fields, Logger } from "../../shared/log/logger.ts";
import type { Offer } from "./authenticate.ts";
import { type CallStore, type Failure, requestOf, untilStored } from "./call-store.ts";
import type { Leases } from "./leases.ts";
import { type LongStore, storedAnswer } from "./long-store.ts";
import { busy, reused, unavailable } from "./refusals.ts";
import {
  type HttpAnswer,
  isSuccess,
  type Job,
  type JobContext,
  type JobRequest,
  toHttpAnswer,
} from "./router.ts";

export type Outcome = {
  readonly answer: HttpAnswer;
  readonly kind: "finished" | "failed" | "stored" | "replayed";
};

type RunCallDeps = {
  calls: CallStore;
  leases: Leases;
  runShort: (offer: Offer) => Promise<HttpAnswer>;
  storeLong: (offer: Offer) => Promise<HttpAnswer>;
};

export type RunCall = (offer: Offer) => Promise<Outcome>;

/**
 * Runs an offered call, or answers it from memory. A call that succeeded is never run again while it is remembered; one
 * that runs, here or under another runner's lease, is `runner.busy`. Of a call it began, this runner knows by itself
 * until the end is on disk, so that no lapse of a lease makes it begin the same call twice.
 */
export function createRunCall({ calls, leases, runShort, storeLong }: RunCallDeps) {
  const underway = new Map<string, { request: string; done: Promise<Outcome> }>();

  async function begin(offer: Offer): Promise<Outcome> {
    const begun = await calls.begin(offer).catch((cause: unknown) => {
      throw unavailable(messageOf(cause), cause);
    });
    if (begun.kind === "answered") return { answer: begun.answer, kind: "replayed" };
    if (begun.kind === "running") throw busy(offer.callId);
    if (begun.kind === "reused") throw reused(offer.callId);
    failpoint("runner.after_begin");
    return await run(offer);
  }

  async function run(offer: Offer): Promise<Outcome> {
    leases.hold(offer.callId);
    try {
      if (offer.job.long) return { answer: await storeLong(offer), kind: "stored" };
      const answer = await runShort(offer);
      return { answer, kind: isSuccess(answer) ? "finished" : "failed" };
    } finally {
      leases.drop(offer.callId);
    }
  }

  const runCall: RunCall = async (offer) => {
    const { callId } = offer;
    const request = requestOf(offer);
    const here = underway.get(callId);
    if (here !== undefined) throw here.request === request ? busy(callId) : reused(callId);
    const done = begin(offer).finally(() => underway.delete(callId));
    underway.set(callId, { request, done });
    return await done;
  };

  /** Resolves when nothing that was begun is open. */
  async function idle(): Promise<void> {
    await Promise.allSettled([...underway.values()].map(({ done }) => done));
  }

  return { runCall, idle };
}

type RunShortDeps = {
  calls: CallStore;
  execute: Execute;
  forget: Forget;
  ended: AbortSignal;
  log: Logger;
};

/**
 * Runs a begun call to its end. A 2xx is on disk when this resolves, and is the answer for ever; another answer, and what
 * the handler throws, leaves the call to be run again.
 */
export function createRunShort({ calls, execute, forget, ended, log }: RunShortDeps) {
  return async function runShort(offer: Offer): Promise<HttpAnswer> {
    const { callId } = offer;
    let answer: HttpAnswer;
    try {
      answer = await execute(offer.job, offer);
    } catch (thrown) {
      const error = toAppError(thrown);
      await forget(callId, toFailure(error));
      throw error;
    }
    if (!isSuccess(answer)) {
      const { status } = answer;
      await forget(callId, { code: "runner.handler_failed", reason: `the job answered ${status}`, status });
      return answer;
    }
    const first = await untilStored(() => calls.finish(offer, answer), { log, callId, signal: ended });
    failpoint("runner.after_remembered");
    return first;
  };
}

type StoreLongDeps = {
  longStore: LongStore;
  forget: Forget;
  /** A long call waits to be taken. */
  wake: () => void;
};

/** Puts a begun long call into the store, whole and on disk, once its input has proved to be what the job takes. */
export function createStoreLong({ longStore, forget, wake }: StoreLongDeps) {
  async function store(offer: Offer, answer: HttpAnswer): Promise<boolean> {
    offer.job.prepare(offer);
    try {
      return await longStore.store(offer, answer);
    } catch (cause) {
      throw unavailable(messageOf(cause), cause);
    }
  }

  return async function storeLong(offer: Offer): Promise<HttpAnswer> {
    const answer = storedAnswer(offer.callId);
    const stored = await store(offer, answer).catch(async (thrown: unknown) => {
      const error = toAppError(thrown);
      await forget(offer.callId, toFailure(error));
      throw error;
    });
    if (!stored) throw busy(offer.callId);
    failpoint("runner.after_stored");
    wake();
    return answer;
  };
}

export type Forget = (callId: string, failure: Failure) => Promise<void>;

/**
 * Ends a run that gave nothing to remember, so that the next offer runs the call again. Never rejects: what cannot be
 * written down needs no second try, since the lease lapses and this runner may begin its own call anew at once.
 */
export function createForget(calls: CallStore, log: Logger): Forget {
  return async function forget(callId, failure) {
    try {
      await calls.fail(callId, failure);
    } catch (error) {
      log.warn("job.store_delayed", { callId, reason: messageOf(error) });
    }
  };
}

export function toFailure({ code, message }: AppError): Failure {
  return { code, reason: message, status: CODES[code].status };
}

type ExecuteDeps = {
  metadataPrefix: string;
  /** Aborted when this runner waits for handlers no longer. */
  ended: AbortSignal;
  log: Logger;
};

/** Runs a job's handler once. Throws `runner.input_rejected` before it, `runner.handler_failed` for all it throws. */
export type Execute = (job: Job, request: JobRequest, signal?: AbortSignal) => Promise<HttpAnswer>;

export function createExecute({ metadataPrefix, ended, log }: ExecuteDeps): Execute {
  const serviceKey = platformKeys(metadataPrefix).serviceId.toUpperCase();

  function toContext(job: Job, { callId, jobId, metadata }: JobRequest, signal: AbortSignal): JobContext {
    const bound = withFields(log, { callId, jobId, job: job.name });
    const serviceId = Number(metadata[serviceKey] ?? Number.NaN);
    return {
      serviceId: Number.isSafeInteger(serviceId) ? serviceId : undefined,
      signal,
      log: bound,
      progress: (fields) => bound.info("job.progressed", fields),
    };
  }

  return async function execute(job, request, signal = ended) {
    const run = job.prepare(request);
    try {
      const answer = run(toContext(job, request, signal));
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
