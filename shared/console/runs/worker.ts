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

/** Does a run, from wherever it is. What it throws stops the run, unless Redis is away: then the run waits for Redis. */
export type DoRun = (work: RunWork) => Promise<void>;

type Options = {
  partition: Partition;
  /** By the kind of run. */
  kinds: Readonly<Record<string, DoRun>>;
  log: Logger;
  /** Runs that this process does at once. */
  atOnce?: number;
  leaseMs?: number;
  everyMs?: number;
};

const LEASE_MS = 8000;
const EVERY_MS = 1000;

export type RunWorker = {
  /** Looks for a run now. */
  wake(): void;
  /** Takes no more, ends those under way where they are, and leaves them to others. */
  stop(): Promise<void>;
};

/** Takes runs that nobody holds, and does them. Any number of processes may; each run is done by one at a time. */
export function startRunWorker(options: Options): RunWorker {
  const { partition, kinds, log, atOnce = 4, leaseMs = LEASE_MS, everyMs = EVERY_MS } = options;
  const store = createRunStore(partition);
  const own = `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`;
  let taken = 0;
  const underWay = new Set<Promise<void>>();
  const stopped = new AbortController();
  let looking = false;

  async function look(): Promise<void> {
    if (looking || partition.redis.status !== "ready") return;
    looking = true;
    try {
      while (underWay.size < atOnce && !stopped.signal.aborted) {
        // A name for each time, so that a run whose lease has lapsed is lost to whoever held it, this process too.
        taken += 1;
        const holder = `${own}-${taken}`;
        const run = await store.take(holder, leaseMs, Object.keys(kinds));
        if (run === undefined) return;
        failpoint("console.after_taken");
        const work = doRun(run, holder).finally(() => {
          underWay.delete(work);
          void look();
        });
        underWay.add(work);
      }
    } catch (error) {
      log.warn("run.poll_failed", { reason: messageOf(error) });
    } finally {
      looking = false;
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

  const onTime = (): void => void look();
  const timer = setInterval(onTime, everyMs);
  partition.redis.on("ready", onTime);
  onTime();
  return {
    wake: onTime,
    async stop() {
      clearInterval(timer);
      partition.redis.off("ready", onTime);
      stopped.abort(new Error("the process is stopping"));
      await Promise.all(underWay);
    },
  };
}
