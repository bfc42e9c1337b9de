import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { type AppError, messageOf, toAppError } from "../../platform/errors/app-error.ts";
import { failpoint } from "../../platform/lifecycle/failpoint.ts";
import type { Logger } from "../../platform/log/logger.ts";
import { unlessRedis } from "../../redis/failure.ts";
import type { Partition } from "../../redis/partition.ts";
import { holdRun, type RunWork } from "./hold.ts";
import type { Run } from "./run.ts";
import { createRunStore } from "./store.ts";

/**
 * Carries out a run, and continues from its progress if there is any. An error stops the run. If the error is that Redis
 * is unavailable, the run waits instead, and is taken again later.
 */
export type DoRun = (work: RunWork) => Promise<void>;

type Options = {
  partition: Partition;
  /** Functions that carry out runs, by kind. */
  kinds: Readonly<Record<string, DoRun>>;
  log: Logger;
  /** Number of runs that this process works on at once. */
  atOnce?: number;
  leaseMs?: number;
  everyMs?: number;
};

const LEASE_MS = 8000;
const EVERY_MS = 1000;

export type RunWorker = {
  /** Checks for a waiting run now. */
  wake(): void;
  /** Takes no further runs, and interrupts those in progress. Other processes continue them. */
  stop(): Promise<void>;
};

/**
 * Takes runs that no process holds, and carries them out. Any number of processes may take runs, but only one process at a
 * time works on a run.
 */
export function startRunWorker(options: Options): RunWorker {
  const { partition, kinds, log, atOnce = 4, leaseMs = LEASE_MS, everyMs = EVERY_MS } = options;
  const store = createRunStore(partition);
  const own = `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`;
  let taken = 0;
  const inProgress = new Set<Promise<void>>();
  const stopped = new AbortController();
  let taking = false;

  async function takeNext(): Promise<void> {
    if (taking || partition.redis.status !== "ready") return;
    taking = true;
    try {
      while (inProgress.size < atOnce && !stopped.signal.aborted) {
        // Each time a run is taken, the holder has a new name. So if a lease has expired, the former holder cannot change
        // the run, even if the same process takes it again.
        taken += 1;
        const holder = `${own}-${taken}`;
        const run = await store.take(holder, leaseMs, Object.keys(kinds));
        if (run === undefined) return;
        failpoint("console.after_taken");
        const work = doRun(run, holder).finally(() => {
          inProgress.delete(work);
          void takeNext();
        });
        inProgress.add(work);
      }
    } catch (error) {
      log.warn("run.poll_failed", { reason: messageOf(error) });
    } finally {
      taking = false;
    }
  }

  async function doRun(run: Run, holder: string): Promise<void> {
    const { id, kind } = run;
    const common = { store, holder, leaseMs, everyMs: everyMs / 2, log };
    const held = holdRun({ ...common, run, stopped: stopped.signal });
    let failure: AppError | undefined;
    try {
      if (!held.work.signal.aborted) await kinds[kind]?.(held.work);
    } catch (thrown) {
      failure = toAppError(unlessRedis(thrown));
    }
    try {
      await held.finish(failure);
    } catch (error) {
      log.warn("run.write_failed", { id, kind, reason: messageOf(error) });
    }
  }

  const onTime = (): void => void takeNext();
  const timer = setInterval(onTime, everyMs);
  partition.redis.on("ready", onTime);
  onTime();
  return {
    wake: onTime,
    async stop() {
      clearInterval(timer);
      partition.redis.off("ready", onTime);
      stopped.abort(new Error("the process is stopping"));
      await Promise.all(inProgress);
    },
  };
}
