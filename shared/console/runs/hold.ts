import { type AppError, messageOf } from "../../platform/errors/app-error.ts";
import { failpoint } from "../../platform/lifecycle/failpoint.ts";
import type { Logger } from "../../platform/log/logger.ts";
import { delay } from "../../platform/time/clock.ts";
import type { Run, RunState } from "./run.ts";
import type { RunStore } from "./store.ts";

/** What a run is done with. */
export type RunWork = {
  run: Run;
  /** Aborted once the run is to end: it was cancelled, the process stops, or another one has it by now. */
  signal: AbortSignal;
  /** What is kept of how far it is, so that another process goes on from there. It is written soon. */
  tell(progress: unknown): void;
  /** The same, and it is written when this resolves. */
  told(progress: unknown): Promise<void>;
};

type Options = {
  store: RunStore;
  run: Run;
  holder: string;
  leaseMs: number;
  /** How often the lease is renewed. */
  everyMs: number;
  /** Aborted when the process stops. */
  stopped: AbortSignal;
  log: Logger;
};

export type HeldRun = {
  work: RunWork;
  /** Writes how the work has ended; `failure` is what it threw. Rejects if that cannot be written: then the lease lapses. */
  finish(failure: AppError | undefined): Promise<void>;
};

/** Renews the lease of a run that was taken, and tells how far it is, until it ends. */
export function holdRun({ store, run, holder, leaseMs, everyMs, stopped, log }: Options): HeldRun {
  const { id, kind, by } = run;
  const ended = new AbortController();
  let became: "held" | "cancelled" | "lost" = "held";
  let { progress } = run;

  let written = JSON.stringify(progress);

  async function renew(): Promise<void> {
    // Whoever does the run may change what it has told.
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

  /** Undefined: it waits for whoever goes on with it. */
  function stateAfter(failure: AppError | undefined): RunState | undefined {
    if (failure?.code === "queue.unavailable") return undefined;
    if (became === "cancelled") return "cancelled";
    if (stopped.aborted) return undefined; // it may be but a part
    return failure === undefined ? "done" : "stopped";
  }

  return {
    work: {
      run,
      signal: AbortSignal.any([ended.signal, stopped]),
      tell(next) {
        progress = next;
      },
      async told(next) {
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
      // What a cancelled one throws says only that it was.
      const why =
        state === "stopped" && failure ? { code: failure.code, reason: failure.message } : undefined;
      await store.end(id, holder, { state, progress, failure: why });
      log.info("run.ended", { id, kind, by, state, ...why });
    },
  };
}
