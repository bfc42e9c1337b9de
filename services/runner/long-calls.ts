import { messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { type Backoff, backoffMs } from "../../shared/time/backoff.ts";
import { type Clock, delay } from "../../shared/time/clock.ts";
import type { CallStore } from "./call-store.ts";
import { untilStored } from "./call-store.ts";
import type { Leases } from "./leases.ts";
import { type LongStore, type StoredCall, storedAnswer } from "./long-store.ts";
import type { Job, Router } from "./router.ts";
import type { Execute } from "./run-call.ts";

type Options = {
  calls: CallStore;
  store: LongStore;
  jobs: Router;
  leases: Leases;
  leaseMs: number;
  execute: Execute;
  /** Run at once; the others wait in the store. */
  concurrency: number;
  /** Runs that end with an error before the call is FAILED. A crash or a stop is no such end. */
  attempts: number;
  backoff: Backoff;
  ended: AbortSignal;
  clock: Clock;
  random: () => number;
  log: Logger;
};

type About = { callId: string; ms: number };

/**
 * Runs the stored long calls. Any number of runners may do so on one store: a call is taken under a lease, and taken
 * again, by whichever runner looks first, once that lapsed.
 */
export class LongCalls {
  readonly #options: Options;
  readonly #running = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(this.wake, options.leaseMs / 3);
  }

  /** Takes what is due, now. */
  readonly wake = (): void => {
    this.#lookAgain = true;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      if (this.#lookAgain && !this.#stopping.signal.aborted) this.wake();
    });
  };

  /** Takes nothing more, aborts what runs and gives it back, to be taken again at once. Resolves when all of it ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort(new Error("the runner stops"));
    await this.#looking;
    await Promise.all(this.#running.values());
  }

  async #look(): Promise<void> {
    while (this.#lookAgain && !this.#stopping.signal.aborted) {
      this.#lookAgain = false;
      await this.#takeDue().catch((error: unknown) => {
        this.#options.log.warn("job.look_failed", { reason: messageOf(error) });
      });
    }
  }

  async #takeDue(): Promise<void> {
    const { store, concurrency } = this.#options;
    for (const id of await store.due(concurrency + this.#running.size)) {
      if (this.#running.size >= concurrency || this.#stopping.signal.aborted) return;
      if (this.#running.has(id)) continue;
      const call = await store.claim(id);
      if (call !== undefined) this.#start(call);
    }
  }

  #start(call: StoredCall): void {
    const id = call.request.callId;
    const run = this.#run(call).finally(() => {
      this.#running.delete(id);
      this.#options.leases.drop(id);
      this.wake();
    });
    this.#running.set(id, run);
  }

  async #run(call: StoredCall): Promise<void> {
    const { jobs, leaseMs, log } = this.#options;
    const job = jobs.find(call.request.jobId);
    try {
      if (job !== undefined) return await this.#runJob(job, call);
      log.warn("job.unknown", { callId: call.request.callId, jobId: call.request.jobId });
      await this.#giveBack(call, { pauseMs: leaseMs, attemptsFailed: call.attemptsFailed });
    } catch (error) {
      log.warn("job.left_open", { callId: call.request.callId, reason: messageOf(error) });
    }
  }

  async #runJob(job: Job, call: StoredCall): Promise<void> {
    const { execute, leases, clock, log } = this.#options;
    const { callId, jobId } = call.request;
    const about = { callId, jobId, job: job.name };
    const lost = new AbortController();
    leases.hold(callId, () => lost.abort(new Error("another runner took the call")));
    if (call.runs > 1)
      log.info("job.resumed", { ...about, run: call.runs, attemptsFailed: call.attemptsFailed });
    const startedAt = clock();
    const signal = AbortSignal.any([this.#stopping.signal, lost.signal]);
    try {
      await execute(job, call.request, signal);
    } catch (error) {
      const ended = { ...about, ms: clock() - startedAt };
      if (signal.aborted) return await this.#interrupted(call, ended);
      return await this.#failed(call, error, ended);
    }
    await this.#finish(call);
    failpoint("runner.after_remembered");
    log.info("job.finished", { ...about, status: 202, ms: clock() - startedAt, replayed: false });
  }

  /** The answer was given when the call was stored; it stands. */
  async #finish({ request, bytes, sha256 }: StoredCall): Promise<void> {
    const { calls } = this.#options;
    const subject = { callId: request.callId, jobId: request.jobId, bytes, sha256 };
    await this.#untilStored(request.callId, () => calls.finish(subject, storedAnswer(subject.callId)));
  }

  /** No failure of the call: the runner stops, or another runner has the call, and then giving it back changes nothing. */
  async #interrupted(call: StoredCall, about: About): Promise<void> {
    this.#options.log.info("job.interrupted", about);
    await this.#giveBack(call, { pauseMs: 0, attemptsFailed: call.attemptsFailed });
  }

  async #failed(call: StoredCall, thrown: unknown, about: About): Promise<void> {
    const { calls, attempts, backoff, random, log } = this.#options;
    const attemptsFailed = call.attemptsFailed + 1;
    const { code, message: reason } = toAppError(thrown);
    if (attemptsFailed >= attempts) {
      log.error("job.failed", { ...about, status: 500, code, reason, attempt: attemptsFailed, final: true });
      return await this.#untilStored(about.callId, () =>
        calls.fail(about.callId, { code, reason, status: 500, attempts: attemptsFailed }),
      );
    }
    log.warn("job.failed", { ...about, status: 500, code, reason, attempt: attemptsFailed, final: false });
    const pauseMs = backoffMs(backoff, attemptsFailed, random);
    await this.#giveBack(call, { pauseMs, attemptsFailed });
    delay(pauseMs, this.#stopping.signal).then(this.wake, () => {});
  }

  #giveBack(
    { request }: StoredCall,
    { pauseMs, attemptsFailed }: { pauseMs: number; attemptsFailed: number },
  ) {
    const { store } = this.#options;
    return this.#untilStored(request.callId, () => store.later(request.callId, pauseMs, attemptsFailed));
  }

  #untilStored<Result>(callId: string, write: () => Promise<Result>): Promise<Result> {
    const { log, ended } = this.#options;
    return untilStored(write, { log, callId, signal: ended });
  }
}
