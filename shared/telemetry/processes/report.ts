import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { configHash } from "../../config/fingerprint.ts";
import { messageOf } from "../../platform/errors/app-error.ts";
import type { Logger } from "../../platform/log/logger.ts";
import { metered } from "../../platform/log/metered.ts";
import { cut } from "../../platform/text/cut.ts";
import { type Clock, systemClock, within } from "../../platform/time/clock.ts";
import { redisClock } from "../../redis/clock.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Deployment } from "../../redis/deployment.ts";
import { LAYOUT, RELEASE } from "../../redis/layout.ts";
import type { Partitioned, Partitions } from "../../redis/partition.ts";
import { nothing, numeric, optional } from "../../redis/reply.ts";
import { createSeriesMeters } from "../series/from-log.ts";
import { Series } from "../series/series.ts";
import { type Batch, SERIES, toBatches } from "../series/write.ts";
import farewellLua from "./farewell.lua";
import { type ProcessKind, REPORT_EVERY_MS, REPORT_KEPT_MS } from "./process.ts";
import reportLua from "./report.lua";
import { storeRunners, type WatchedRunners } from "./runner-health.ts";

const REPORT = defineScript({
  source: reportLua,
  keys: "process, processes, reloads, layout, deployment, ...counts",
  args: "id, number, batch, keptMs, deploymentId, isSettled, seenAdopted, seenAt, lossMs, ...fields(name, value)",
  constants: { LAYOUT, SERIES },
  proof: "expendable",
  reply: optional(numeric),
});

const FAREWELL = defineScript({
  source: farewellLua,
  keys: "process, processes",
  args: "id",
  proof: "expendable",
  reply: nothing,
});

/**
 * Arguments for a process that does not check which deployment owns the data in Redis. Redis accepts its reports even
 * if the data belongs to another deployment. They do not raise the time of the last report, by which other processes
 * recognize old data (shared/redis/deployment.ts).
 */
const NO_DEPLOYMENT = { deploymentId: "", isSettled: false, seenAdopted: 0, seenAt: 0, lossMs: 0 };

/**
 * Time limit for Redis' answer to a report. If the answer is late, the next report sends the same counts again. Redis
 * recognizes their batch number, so it adds them only once.
 */
const REPORT_MS = 5000;
/** Time limit for the last report of a process that stops. */
const FAREWELL_MS = 1000;

type Options = {
  kind: ProcessKind;
  postern: { console: { report: boolean }; redis: { durability: string } };
  /** Configuration of the process. Reports contain only its hash. Default: `postern` alone. */
  config?: Readonly<Record<string, unknown>>;
  /** Service id of the webhooks gateway. */
  serviceId?: number | undefined;
  /** Reports go to the first partition. In the other partitions, each report only raises the time of the last report. */
  partitions: Partitions;
  deployments?: Partitioned<Deployment> | undefined;
  log: Logger;
  clock?: Clock;
  everyMs?: number;
};

export type Reports = {
  /** A log that also counts its events. */
  readonly log: Logger;
  /**
   * Reports the hash of this configuration from now on. After a reload of an unusable configuration, `config` is still
   * the one in force, and `problem` says why the newer one is not used.
   */
  configured(config: Readonly<Record<string, unknown>>, problem?: string): void;
  /** Calls `reload` each time an operator asks all processes to reload. */
  onReloadAsked(reload: () => Promise<void>): void;
  /**
   * Includes the health of these runners in each report. Also sends a report at once when a runner becomes unreachable
   * or returns.
   */
  watchRunners(runners: WatchedRunners): void;
  /** Reports now. */
  flush(): Promise<void>;
  /** Sends a last report, and then removes the process from the list of running processes. */
  stop(): Promise<void>;
};

/**
 * Reports to Redis every ten seconds that this process runs, with the counts of its events since the last report
 * (shared/telemetry/series). The process does not wait for these reports. If one fails, the next one sends its counts
 * again. A killed process loses the counts since its last report. With `console.report = false` in postern.toml, the
 * process sends no reports.
 */
export function openReports(options: Options): Reports {
  const { kind, postern, config = { postern }, serviceId, log } = options;
  const { redis } = options.partitions.control;
  const { now, aheadMs, read } = redisClock(redis);
  if (!postern.console.report) return noReports(log);
  const series = new Series(options.clock ?? now);
  let runners: WatchedRunners | undefined;
  const clock = options.clock ?? systemClock;
  const startedAt = clock();
  let configured = { config: configHash(config), configured_at: startedAt, config_problem: "" };
  const reloads = followReloads(() => onTime());
  const record = {
    kind,
    host: hostname(),
    pid: process.pid,
    version: RELEASE,
    durability: postern.redis.durability,
    started_at: startedAt,
  };
  const fields = () => ({
    ...record,
    ...configured,
    reloads: reloads.done(),
    clock_ahead_ms: aheadMs() ?? 0,
    ...(runners && { runners: storeRunners(runners.health()) }),
  });
  const reporter = createReporter({
    ...options,
    read: fields,
    series,
    onReloads: (asked) => reloads.see(asked),
  });
  const flush = async () => {
    if (aheadMs() === undefined && redis.status === "ready") await within(REPORT_MS, read());
    await reporter.report(REPORT_MS);
  };
  const onTime = (): void => void flush();
  redis.on("ready", onTime);
  onTime();
  const timer = setInterval(onTime, options.everyMs ?? REPORT_EVERY_MS);
  timer.unref();
  return {
    log: metered(log, createSeriesMeters(series, serviceId)),
    configured(next, problem = "") {
      const hash = configHash(next);
      const configured_at = problem === "" ? clock() : configured.configured_at;
      configured = { config: hash, configured_at, config_problem: cut(problem, PROBLEM_CHARS) };
    },
    onReloadAsked(reload) {
      reloads.follow(reload);
    },
    watchRunners(watched) {
      runners = watched;
      watched.onChange(onTime);
    },
    flush,
    async stop() {
      clearInterval(timer);
      redis.off("ready", onTime);
      await reporter.report(FAREWELL_MS);
      await reporter.leave();
    },
  };
}

/** Returns the `Reports` of a process for which reports are disabled. */
export function noReports(log: Logger): Reports {
  return { log, configured() {}, onReloadAsked() {}, watchRunners() {}, async flush() {}, async stop() {} };
}

/**
 * Reloads the configuration when the number of reloads that operators have requested has risen. Each answer to a report
 * contains this number. Reloads from before the first report count as completed, because the process read the current
 * configuration at its start.
 */
function followReloads(tell: () => void) {
  let done: number | undefined;
  let isRunning = false;
  let reload: (() => Promise<void>) | undefined;
  return {
    done: () => done ?? 0,
    follow(work: () => Promise<void>): void {
      reload = work;
    },
    see(asked: number): void {
      done ??= asked;
      if (asked === done || isRunning || reload === undefined) return;
      isRunning = true;
      void reload().finally(() => {
        isRunning = false;
        done = asked;
        tell();
      });
    },
  };
}

/** Maximum length of a reported problem with the configuration, which may name many keys. */
const PROBLEM_CHARS = 1000;

type Fields = Readonly<Record<string, string | number>> & { kind: ProcessKind };

type Reporter = Pick<Options, "partitions" | "deployments" | "log"> & {
  read: () => Fields;
  series: Series;
  /** Called after each report with the number of reloads that operators have requested. */
  onReloads: (asked: number) => void;
};

function createReporter({ partitions, read, series, onReloads, deployments, log }: Reporter) {
  const { redis, keys } = partitions.control;
  const [send, farewell] = [REPORT.on(redis), FAREWELL.on(redis)];
  const id = `${read().kind}-${randomBytes(6).toString("hex")}`;
  const own = { process: keys.process(id), processes: keys.processes };
  const others = partitions.all.slice(1).map((partition) => ({
    redis: partition.redis,
    raise: deployments?.all[partition.index]?.createRaise(partition),
  }));
  let number = 0;
  let pending: Batch[] = [];
  let inFlight: Promise<void> | undefined;
  let isFailing = false;

  async function sendOne({ counts, batch }: Batch, ms: number): Promise<boolean> {
    const fields = Object.entries(read()).map(([name, value]) => ({ name, value }));
    const ofData = deployments?.control.reportArgs ?? NO_DEPLOYMENT;
    const words = { id, number, batch, keptMs: REPORT_KEPT_MS, ...ofData, fields };
    const touched = {
      ...own,
      reloads: keys.reloads,
      layout: keys.layout,
      deployment: keys.deployment,
      counts,
    };
    const sent = await within(ms, send(touched, words));
    if (sent.kind !== "done" && !isFailing) {
      const reason = sent.kind === "late" ? "no answer" : messageOf(sent.error);
      log.warn("report.failed", { reason });
    }
    if (sent.kind === "done" && sent.result !== undefined) onReloads(sent.result);
    isFailing = sent.kind !== "done";
    return !isFailing;
  }

  /**
   * Sends all pending batches in order, and stops at the first failure. Redis may have added a batch although no answer
   * came. So this batch is sent again unchanged and with the same number, and Redis does not add it twice.
   */
  async function sendAll(ms: number): Promise<void> {
    if (pending.length === 0) {
      series.noteReport(read().kind);
      pending = toBatches(series.take(), keys);
    }
    for (let batch = pending[0]; batch !== undefined; batch = pending[0]) {
      if (!(await sendOne(batch, ms))) return;
      pending.shift();
      number += 1;
    }
  }

  /** Sends a report. If batches of a failed report are pending, sends those first, and then the counts since that report. */
  async function sendPendingAndNew(ms: number): Promise<void> {
    const isAgain = pending.length > 0;
    await sendAll(ms);
    if (isAgain && !isFailing) await sendAll(ms);
  }

  function raiseOthers(): void {
    for (const other of others) if (other.redis.status === "ready") other.raise?.().catch(() => {});
  }

  return {
    /**
     * Sends a report. While there is no connection, it sends none. Otherwise the Redis client would keep the report,
     * and send it after the reconnect.
     */
    async report(ms: number): Promise<void> {
      raiseOthers();
      await inFlight;
      if (redis.status !== "ready") return;
      inFlight ??= sendPendingAndNew(ms).finally(() => {
        inFlight = undefined;
      });
      await inFlight;
    },
    async leave(): Promise<void> {
      if (redis.status === "ready") await within(FAREWELL_MS, farewell(own, { id }));
    },
  };
}
