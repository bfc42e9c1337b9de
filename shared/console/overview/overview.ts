import { z } from "zod";
import { ORIGINS } from "../../call/origin.ts";
import type { Env } from "../../config/secrets.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { toIso } from "../../platform/time/iso.ts";
import { lastBeatsInAny } from "../../queue/heartbeat.ts";
import { openJobs } from "../../queue/jobs.ts";
import { jobOf, originOf, type QueueName } from "../../queue/queue-name.ts";
import { openRegistry, type QueueDepth, sumOfDepths } from "../../queue/registry.ts";
import { askAll } from "../../redis/merge.ts";
import type { Partitions } from "../../redis/partition.ts";
import type { DurabilityMode } from "../../redis/server-state.ts";
import { createReadProcesses, type Processes } from "../../telemetry/processes/list.ts";
import { RunnerView, runnerViews } from "../runners.ts";
import { createTokenSource, decimalsFrom } from "../tokens.ts";
import { count, isoOrNull, isoTime } from "../view.ts";
import { createEndpointsApi, type EndpointsApi } from "./endpoints.ts";
import { createFlowApi, type FlowApi, FlowTotal } from "./flow.ts";
import { createPricesApi, type PricesApi } from "./prices.ts";
import { createReadRedis, PartitionView, RedisView } from "./redis-state.ts";
import { createReadRefundTotals, RefundTotals } from "./refund-totals.ts";
import { createReadRevenue, type ReadRevenue } from "./revenue.ts";

/** Numbers of calls in all queues of an origin, or only in the queues of one job. */
export const QueuesView = z
  .object({
    origin: z.string(),
    waiting: count,
    delayed: count,
    /** Calls that wait until an operator enables their endpoint. */
    held: count,
    active: count,
    failed: count,
    /** Age of the oldest call that waits or is delayed. */
    oldest_age_ms: count.nullable(),
    /** Age of the oldest waiting call. Delayed calls do not count. */
    waiting_age_ms: count.nullable(),
    /** Time at which the last delayed call is due. */
    delayed_until: isoTime.nullable(),
    /** Counts of the last minute, which ended 10 to 20 s ago; null if no process reported in it. */
    last_minute: FlowTotal.nullable(),
  })
  .meta({ id: "Queues" });
export type QueuesView = z.infer<typeof QueuesView>;

const ProcessView = z.object({
  id: z.string(),
  kind: z.string(),
  host: z.string(),
  pid: count,
  version: z.string(),
  /** Digest of the configuration. Processes of one kind with the same configuration have the same value. */
  config: z.string(),
  /** Time at which the process loaded its configuration: its start, or a reload. */
  configured_at: isoTime,
  /** The reason why the process does not use the newest configuration that it has read; null if it does. */
  config_problem: z.string().nullable(),
  /** Number of the last reload that the process has completed. */
  reloads: count,
  durability: z.string(),
  started_at: isoTime,
  /** Time by which the process's clock is ahead of Redis' clock; negative if it is behind. */
  clock_ahead_ms: z.int(),
  /** Time since the last report of the process. Each process reports every ten seconds. */
  silent_ms: count,
});

const PaymentsWaiting = z.object({ count, oldest_at: isoTime.nullable() }).meta({ id: "PaymentsWaiting" });

/** The current state of a deployment. */
export const OverviewView = z
  .object({
    at: isoTime,
    queues: z.array(QueuesView),
    paused_jobs: z.array(z.string()),
    /** Producers that have recently reported to a partition that is available. */
    workers: z.array(z.object({ id: z.string(), heartbeat_age_ms: count })),
    processes: z.array(ProcessView),
    /** Number of processes whose record cannot be read. */
    processes_unreadable: count,
    /**
     * Runners, with the state that the producers report. A producer that is embedded in another program may not report.
     */
    runners: z.array(RunnerView),
    payments: z.object({
      settling: PaymentsWaiting,
      review: PaymentsWaiting,
      /**
       * Payments that the chain contradicts and no operator has acknowledged. `oldest_at` is the time when the first of
       * them was contradicted.
       */
      disputed: PaymentsWaiting,
      refund_pending: PaymentsWaiting,
      refunds: RefundTotals,
    }),
    redis: RedisView,
    /** The partitions. The first one also has all data that belongs to no call. */
    partitions: z.array(PartitionView),
  })
  .meta({ id: "Overview" });
export type OverviewView = z.infer<typeof OverviewView>;

/** Reads a deployment as a whole. */
export type Overview = {
  read(): Promise<OverviewView>;
  /** Reads the queues of a job and of the callbacks about its calls. Without a job, reads all queues. */
  queues(job?: string): Promise<QueuesView[]>;
  flow: FlowApi;
  endpoints: EndpointsApi;
  prices: PricesApi;
  revenue: ReadRevenue;
};

type Given = { mode: DurabilityMode; partitions: Partitions; configDir: string; env: Env; clock: Clock };

export function createOverview(given: Given): Overview {
  const deps = { ...given, partition: given.partitions.control };
  const flow = createFlowApi(deps);
  const toViews = createQueueViews(deps, flow);
  return {
    read: createReadOverview(deps, toViews),
    queues: createReadQueues(deps, toViews),
    flow,
    endpoints: createEndpointsApi({ ...deps, flow }),
    prices: createPricesApi(deps),
    revenue: createReadRevenue(deps),
  };
}

/**
 * Sums the numbers of calls in the queues by origin, and adds the counts of the last minute. With `job`, these are only
 * the counts of this job.
 */
type QueueViews = (
  depths: readonly (QueueDepth & { queue: QueueName })[],
  job?: string,
) => Promise<QueuesView[]>;

function createQueueViews({ clock }: Given, flow: FlowApi): QueueViews {
  return async function toViews(depths, job) {
    const lastMinuteOf = await flow.lastMinute(job);
    const now = clock();
    return originsOf(depths).map((origin) => ({
      ...toQueues(origin, now, sumOfDepths(depths.filter(({ queue }) => originOf(queue) === origin))),
      last_minute: lastMinuteOf(origin),
    }));
  };
}

function createReadQueues({ partitions }: Given, toViews: QueueViews): Overview["queues"] {
  const registries = partitions.map(openRegistry);
  return async function readQueues(job) {
    const depths = await askAll(registries, async (registry) => {
      if (job === undefined) return registry.depths();
      return registry.depths((await registry.names()).filter((queue) => jobOf(queue) === job));
    });
    return toViews(depths.flat(), job);
  };
}

function createReadOverview(
  { partitions, mode, configDir, env, clock }: Given,
  toViews: QueueViews,
): Overview["read"] {
  const partition = partitions.control;
  const readRedis = createReadRedis(partitions, mode);
  const jobs = openJobs(partitions);
  const readProcesses = createReadProcesses(partition);
  const decimalsOf = decimalsFrom(createTokenSource({ configDir, env, clock }));
  const readRefundTotals = createReadRefundTotals(partitions, decimalsOf);

  return async function readOverview() {
    const [{ depths, unresolved, ...found }, gates, workers, processes, refunds] = await Promise.all([
      readRedis(),
      jobs.gates(),
      lastBeatsInAny(partitions),
      readProcesses(),
      readRefundTotals(),
    ]);
    const queues = await toViews(depths);
    const now = clock();
    const paused = [...gates].filter(([, { pausedAt }]) => pausedAt !== undefined);
    return {
      at: toIso(now),
      queues,
      paused_jobs: paused.map(([job]) => job),
      workers: workers.map(({ id, ageMs }) => ({ id, heartbeat_age_ms: ageMs })),
      ...toProcesses(processes),
      runners: runnerViews(processes.processes),
      payments: {
        settling: toWaiting(unresolved.settling),
        review: toWaiting(unresolved.review),
        disputed: toWaiting(unresolved.disputed),
        refund_pending: toWaiting(unresolved.refund_pending),
        refunds,
      },
      ...found,
    };
  };
}

function originsOf(depths: readonly { queue: string }[]): string[] {
  return [...new Set<string>([...ORIGINS, ...depths.map(({ queue }) => originOf(queue))])];
}

function toQueues(origin: string, now: number, depth: QueueDepth) {
  const { waiting, delayed, held, active, failed, oldestSince, waitingSince, delayedUntil } = depth;
  const age = (since: number | undefined) => (since === undefined ? null : Math.max(0, now - since));
  return {
    ...{ origin, waiting, delayed, held, active, failed },
    oldest_age_ms: age(oldestSince),
    waiting_age_ms: age(waitingSince),
    delayed_until: isoOrNull(delayedUntil),
  };
}

function toProcesses({ processes, unreadable }: Processes) {
  const views = processes.map(
    ({
      startedAt,
      configuredAt,
      configProblem,
      reloads = 0,
      silentMs,
      clockAheadMs,
      runners: _,
      ...rest
    }) => ({
      ...rest,
      started_at: toIso(startedAt),
      configured_at: toIso(configuredAt),
      config_problem: configProblem ?? null,
      reloads,
      clock_ahead_ms: clockAheadMs,
      silent_ms: silentMs,
    }),
  );
  return { processes: views, processes_unreadable: unreadable };
}

function toWaiting({ payments, oldestAt }: { payments: number; oldestAt: number | undefined }) {
  return { count: payments, oldest_at: isoOrNull(oldestAt) };
}
