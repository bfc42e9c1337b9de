import { type AppError, messageOf } from "../../platform/errors/app-error.ts";
import { failpoint } from "../../platform/lifecycle/failpoint.ts";
import type { Logger } from "../../platform/log/logger.ts";
import { delay } from "../../platform/time/clock.ts";
import type { Run, RunState } from "./run.ts";
import type { RunStore } from "./store.ts";

/** Input of the function that carries out a run. */
export type RunWork = {
  run: Run;
  /** Aborted when the work must end: an operator cancelled the run, the process stops, or another process holds the run. */
  signal: AbortSignal;
  /** Stores the progress soon, so that another process can continue from there. */
  storeProgressSoon(progress: unknown): void;
  /** Stores the progress, and resolves once it is written. */
  storeProgress(progress: unknown): Promise<void>;
};

type Options = {
  store: RunStore;
  run: Run;
  holder: string;
  leaseMs: number;
  /** Interval between renewals of the lease. */
  everyMs: number;
  /** Aborted when the process stops. */
  stopped: AbortSignal;
  log: Logger;
};

export type HeldRun = {
  work: RunWork;
  /**
   * Stores how the work has ended; `failure` is its error. Rejects if Redis cannot store this. The lease then expires, and
   * another process continues the run.
   */
  finish(failure: AppError | undefined): Promise<void>;
};

/** Renews the lease that this process has on a run, and stores the run's progress, until the run ends. */
export function holdRun({ store, run, holder, leaseMs, everyMs, stopped, log }: Options): HeldRun {
  const { id, kind, by } = run;
  const ended = new AbortController();
  let became: "held" | "cancelled" | "lost" = "held";
  let { progress } = run;

  let written = JSON.stringify(progress);

  async function renew(): Promise<void> {
    // Encodes the progress before the request, because the worker may change the object during the request. `written` must
    // be the text that was sent.
    const text = JSON.stringify(progress);
    const answer = await store.hold(id, holder, leaseMs, text === written ? undefined : progress);
    written = text;
    if (answer === "go on") return;
    if (became === "held") became = answer === "lost" ? "lost" : "cancelled";
    ended.abort(new Error(`the run must end: ${became}`));
  }

  const timer = setInterval(() => {
    renew().catch((error: unknown) => log.warn("run.renew_failed", { id, reason: messageOf(error) }));
  }, everyMs);
  if (run.isCancelling) {
    became = "cancelled";
    ended.abort(new Error("the run must end: cancelled"));
  }

  /** Returns the state after the work has ended; undefined if another process must continue the run. */
  function stateAfter(failure: AppError | undefined): RunState | undefined {
    if (failure?.code === "queue.unavailable") return undefined;
    if (became === "cancelled") return "cancelled";
    if (stopped.aborted) return undefined; // the work may be incomplete, because this process is stopping
    return failure === undefined ? "done" : "stopped";
  }

  return {
    work: {
      run,
      signal: AbortSignal.any([ended.signal, stopped]),
      storeProgressSoon(next) {
        progress = next;
      },
      async storeProgress(next) {
        progress = next;
        await renew();
      },
    },
    async finish(failure) {
      clearInterval(timer);
      if (became === "lost") return log.warn("run.lease_lost", { id, kind, by });
      failpoint("console.before_ended");
      const state = stateAfter(failure);
      if (state === undefined) {
        if (failure !== undefined) await delay(everyMs, stopped).catch(() => {});
        return store.release(id, holder, progress);
      }
      // The error of a cancelled run is not stored, because it says only that the run was cancelled.
      const why =
        state === "stopped" && failure ? { code: failure.code, reason: failure.message } : undefined;
      await store.end(id, holder, { state, progress, failure: why });
      log.info("run.ended", { id, kind, by, state, ...why });
    },
  };
}
