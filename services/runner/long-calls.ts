import { WEBHOOK_EVENT, WEBHOOK_EVENT_UTF8 } from "../../shared/call/job-call.ts";
import { messageOf, toAppError } from "../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { type Backoff, backoffMs } from "../../shared/platform/time/backoff.ts";
import { type Clock, settled } from "../../shared/platform/time/clock.ts";
import type { CallStore, UntilStored } from "./call-store.ts";
import { DueWork } from "./due-work.ts";
import type { Leases } from "./leases.ts";
import type { LongStore, StoredCall } from "./long-store.ts";
import { answeredFailure, isRefusal, type RunFailure, statusOf, type ToOutgoing } from "./outgoing.ts";
import type { CreateReporter } from "./progress.ts";
import { longCallAnswer } from "./remembered-answer.ts";
import type { HttpAnswer, Job, Router } from "./router.ts";
import { type Execute, isSuccess } from "./run-call.ts";

export type LongCallsOptions = {
  jobs: Router;
  calls: CallStore;
  longStore: LongStore;
  leases: Leases;
  leaseMs: number;
  execute: Execute;
  createReporter: CreateReporter;
  toOutgoing: ToOutgoing;
  /** Called when a result waits for delivery. */
  onOutgoing: () => void;
  untilStored: UntilStored;
  /** Maximum number of concurrent calls; the others wait in the store. */
  concurrency: number;
  /**
   * Number of failed runs after which the call is FAILED. A run that ends because the runner crashes or stops does not count.
   */
  attempts: number;
  backoff: Backoff;
  clock: Clock;
  random: () => number;
  log: Logger;
};

type RunFields = {
  callId: string;
  jobId: number;
  job: string;
  /** Type of a webhook's event, as the sender wrote it. Undefined for other calls. */
  eventType: string | undefined;
  ms: number;
};

/**
 * Runs the stored long calls. Any number of runners may share one store. A runner claims a call under a lease, which it
 * renews while the call runs. If the lease expires, because the runner has died, any runner may claim the call again.
 */
export class LongCalls {
  readonly #options: LongCallsOptions;
  readonly #calls: DueWork<StoredCall>;
  /**
   * A controller for each running call, which ends the handler early. AbortSignal.any cannot be used instead: the signal that
   * stops the runner would keep a reference to every run forever.
   */
  readonly #controllers = new Set<AbortController>();
  /** Reason why running calls are aborted; undefined while they may run to their end. */
  #stopped: Error | undefined;

  constructor(options: LongCallsOptions) {
    const { longStore, leaseMs, concurrency, log } = options;
    this.#options = options;
    this.#calls = new DueWork({
      everyMs: leaseMs / 3,
      concurrency,
      due: (countMax) => longStore.due(countMax),
      claim: (callId) => longStore.claim(callId),
      work: (callId, call) => this.#runUntilStopped(callId, call),
      onCheckFailed: (error) => log.warn("job.poll_failed", { reason: messageOf(error) }),
    });
  }

  /** Checks now for calls that are due. */
  readonly wake = (): void => this.#calls.wake();

  get inFlight(): number {
    return this.#controllers.size;
  }

  /** Stops claiming. Resolves when the running calls have ended. */
  retire(): Promise<void> {
    return this.#calls.stop();
  }

  /**
   * Stops claiming, aborts the running calls, and releases them so that another runner can claim them immediately. Resolves
   * when all of them have ended.
   */
  async stop(): Promise<void> {
    this.#stopped ??= new Error("the runner is stopping");
    const ended = this.#calls.stop();
    for (const controller of this.#controllers) controller.abort(this.#stopped);
    await ended;
  }

  async #runUntilStopped(callId: string, call: StoredCall): Promise<void> {
    const controller = new AbortController();
    if (this.#stopped !== undefined) controller.abort(this.#stopped);
    this.#controllers.add(controller);
    await this.#run(call, controller).finally(() => {
      this.#controllers.delete(controller);
      this.#options.leases.drop(callId);
    });
  }

  async #run(call: StoredCall, controller: AbortController): Promise<void> {
    const { jobs, leaseMs, log } = this.#options;
    const { callId, jobId } = call.request;
    const job = jobs.find(jobId);
    try {
      if (job !== undefined) return await this.#runJob(job, call, controller);
      log.warn("job.unknown", { callId, jobId });
      await this.#release(callId, leaseMs, call.attemptsFailed);
    } catch (error) {
      log.warn("job.write_failed", { callId, reason: messageOf(error) });
    }
  }

  async #runJob(job: Job, call: StoredCall, controller: AbortController): Promise<void> {
    const { execute, leases, createReporter, clock, log } = this.#options;
    const { callId, jobId, metadata } = call.request;
    const eventType = metadata[WEBHOOK_EVENT] ?? metadata[WEBHOOK_EVENT_UTF8];
    const about = { callId, jobId, job: job.name, eventType };
    const { signal } = controller;
    leases.hold(callId, () => controller.abort(new Error("another runner took the call")));
    if (call.runs > 1)
      log.info("job.resumed", { ...about, run: call.runs, attemptsFailed: call.attemptsFailed });
    const startedAt = clock();
    const reporter = createReporter(callId);
    const ran = await settled(execute(job, call.request, { signal, reporter }));
    reporter.end();
    const fields = { ...about, ms: clock() - startedAt };
    if (ran.kind === "failed") {
      if (signal.aborted) return await this.#interrupted(call, fields);
      return await this.#failed(call, { error: toAppError(ran.error) }, fields);
    }
    if (!isSuccess(ran.result)) return await this.#failed(call, answeredFailure(ran.result), fields);
    await this.#finish(call, ran.result);
    failpoint("runner.after_remembered");
    log.info("job.finished", { ...about, status: 202, ms: clock() - startedAt, replayed: false });
  }

  /**
   * Stores the end of the call, and its result for delivery. A repeat of the request still gets the 202 that it got when the
   * call was stored.
   */
  async #finish({ request, bytes, sha256 }: StoredCall, answer: HttpAnswer): Promise<void> {
    const { calls, untilStored, toOutgoing, onOutgoing } = this.#options;
    const { callId, jobId } = request;
    const summary = { callId, jobId, bytes, sha256 };
    const outgoing = toOutgoing(callId, answer);
    await untilStored(callId, () => calls.finish(summary, longCallAnswer(callId), outgoing));
    onOutgoing();
  }

  /**
   * Releases a call whose run was aborted, because the runner is stopping. The run does not count as a failure. If the run
   * was aborted because another runner has taken the call, the release changes nothing.
   */
  async #interrupted({ attemptsFailed }: StoredCall, fields: RunFields): Promise<void> {
    this.#options.log.info("job.interrupted", fields);
    await this.#release(fields.callId, 0, attemptsFailed);
  }

  /**
   * Releases a call whose run has failed, for another run after a pause. If its attempts are used up, or the job's answer
   * says that another run would not help, the call becomes FAILED instead.
   */
  async #failed(call: StoredCall, failure: RunFailure, fields: RunFields): Promise<void> {
    const { calls, untilStored, attempts, backoff, random, toOutgoing, onOutgoing, log } = this.#options;
    const { callId } = fields;
    const attempt = call.attemptsFailed + 1;
    const final = attempt >= attempts || isRefusal(failure);
    const { code, message: reason } = failure.error;
    const status = statusOf(failure);
    log[final ? "error" : "warn"]("job.failed", { ...fields, status, code, reason, attempt, final });
    if (final) {
      const ended = { code, reason, status, attempts: attempt };
      const outgoing = toOutgoing(callId, failure);
      await untilStored(callId, () => calls.fail(callId, ended, outgoing));
      onOutgoing();
      return;
    }
    const pauseMs = backoffMs(backoff, attempt, random);
    await this.#release(callId, pauseMs, attempt);
  }

  #release(callId: string, pauseMs: number, attemptsFailed: number): Promise<void> {
    const { longStore, untilStored } = this.#options;
    return untilStored(callId, () => longStore.release(callId, pauseMs, attemptsFailed));
  }
}
