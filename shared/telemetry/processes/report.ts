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

/** Tells the report of a process that knows no deployment. It raises nothing. */
const NO_DEPLOYMENT = { deploymentId: "", isSettled: false, seenAdopted: 0, seenAt: 0, lossMs: 0 };

/** How long Redis has for a report. One that comes later is sent again, and counted once. */
const REPORT_MS = 5000;
/** The same for a process that stops. */
const FAREWELL_MS = 1000;

type Options = {
  kind: ProcessKind;
  postern: { console: { report: boolean }; redis: { durability: string } };
  /** All that the process has of its files: the hash is reported. */
  config?: Readonly<Record<string, unknown>>;
  /** The webhooks gateway's. */
  serviceId?: number | undefined;
  /** The first has the reports; in each of them they raise the time of the last report. */
  partitions: Partitions;
  deployments?: Partitioned<Deployment> | undefined;
  log: Logger;
  clock?: Clock;
  everyMs?: number;
};

export type Reports = {
  /** Its events are counted. */
  readonly log: Logger;
  /** From now on each report has the hash of this configuration, as `openReports` gets it, and why a later one is not in force. */
  configured(config: Readonly<Record<string, unknown>>, problem?: string): void;
  /** Reads the configuration again whenever an operator asks all processes for it. */
  onReloadAsked(reload: () => Promise<void>): void;
  /** From now on each report tells how these runners are, and one comes at once when a runner goes away or returns. */
  watchRunners(runners: WatchedRunners): void;
  /** Tells now what there is to tell. */
  flush(): Promise<void>;
  /** Tells the rest, and takes the process off the list. */
  stop(): Promise<void>;
};

/**
 * Tells Redis every ten seconds that this process runs, and what its events have counted since (shared/telemetry/series). Nothing waits for it. If a
 * report fails, the next one brings its counts; a process that is killed loses those of one interval. With `console.report = false`
 * nothing is told.
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

/** Reports of a process that tells nothing. */
export function noReports(log: Logger): Reports {
  return { log, configured() {}, onReloadAsked() {}, watchRunners() {}, async flush() {}, async stop() {} };
}

/** Counts the reloads that operators ask for. Those from before the process started are done: it has read what is there now. */
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

/** Of a problem with the configuration, which may name many keys. */
const PROBLEM_CHARS = 1000;

type Fields = Readonly<Record<string, string | number>> & { kind: ProcessKind };

type Reporter = Pick<Options, "partitions" | "deployments" | "log"> & {
  read: () => Fields;
  series: Series;
  /** Gets how many reloads operators have asked for, with each report. */
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
  let underWay: Promise<void> | undefined;
  let isFailing = false;

  async function sendOne({ counts, batch }: Batch, ms: number): Promise<boolean> {
    const fields = Object.entries(read()).map(([name, value]) => ({ name, value }));
    const ofData = deployments?.control.wordsOfReport ?? NO_DEPLOYMENT;
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

  /** What Redis may have counted already goes again as the batch that it was. */
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

  /** What was counted since a report that failed comes after it. */
  async function both(ms: number): Promise<void> {
    const isAgain = pending.length > 0;
    await sendAll(ms);
    if (isAgain && !isFailing) await sendAll(ms);
  }

  function raiseOthers(): void {
    for (const other of others) if (other.redis.status === "ready") other.raise?.().catch(() => {});
  }

  return {
    /** Without a connection nothing is sent: one for work would keep it until Redis is back. */
    async report(ms: number): Promise<void> {
      raiseOthers();
      await underWay;
      if (redis.status !== "ready") return;
      underWay ??= both(ms).finally(() => {
        underWay = undefined;
      });
      await underWay;
    },
    async leave(): Promise<void> {
      if (redis.status === "ready") await within(FAREWELL_MS, farewell(own, { id }));
    },
  };
}
