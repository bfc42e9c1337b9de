import { z } from "zod";
import { ORIGINS } from "../../call/origin.ts";
import type { Env } from "../../config/secrets.ts";
import { createUnresolved } from "../../payments/list.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { toIso } from "../../platform/time/iso.ts";
import { lastBeats } from "../../queue/heartbeat.ts";
import { openJobs } from "../../queue/jobs.ts";
import { jobOf, originOf } from "../../queue/queue-name.ts";
import { openRegistry, type QueueDepth, sumOfDepths } from "../../queue/registry.ts";
import type { Redis } from "../../redis/connect.ts";
import type { Partition } from "../../redis/partition.ts";
import { type DurabilityMode, readServerState } from "../../redis/server-state.ts";
import { createReadProcesses, type Processes } from "../../telemetry/processes/list.ts";
import { RunnerView, runnerViews } from "../runners.ts";
import { createTokenSource, decimalsFrom } from "../tokens.ts";
import { count, isoOrNull, isoTime } from "../view.ts";
import { createEndpointsApi, type EndpointsApi } from "./endpoints.ts";
import { createFlowApi, type FlowApi, FlowTotal } from "./flow.ts";
import { createPricesApi, type PricesApi } from "./prices.ts";
import { createReadRefundTotals, RefundTotals } from "./refund-totals.ts";
import { createReadRevenue, type ReadRevenue } from "./revenue.ts";

/** Counts of an origin's queues together: all of them, or those of one job. */
export const QueuesView = z
  .object({
    origin: z.string(),
    waiting: count,
    delayed: count,
    /** Calls that wait until their endpoint is enabled. */
    held: count,
    active: count,
    failed: count,
    /** Age of the oldest call that waits or is delayed. */
    oldest_age_ms: count.nullable(),
    /** Age of the oldest call that is not delayed. */
    waiting_age_ms: count.nullable(),
    /** When the last delayed call is due. */
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
  /** Tells configurations apart: processes of one kind that share one have the same. */
  config: z.string(),
  durability: z.string(),
  started_at: isoTime,
  /** By how much its clock is ahead of that of Redis; negative if it is behind. */
  clock_ahead_ms: z.int(),
  /** How long ago it reported; each does every ten seconds. */
  silent_ms: count,
});

const PaymentsWaiting = z.object({ count, oldest_at: isoTime.nullable() }).meta({ id: "PaymentsWaiting" });

/** The current state of a deployment. */
export const OverviewView = z
  .object({
    at: isoTime,
    queues: z.array(QueuesView),
    paused_jobs: z.array(z.string()),
    /** Producers that are alive. */
    workers: z.array(z.object({ id: z.string(), heartbeat_age_ms: count })),
    processes: z.array(ProcessView),
    /** Further processes, whose record is unreadable. */
    processes_unreadable: count,
    /** As producers report them. A producer inside another program may not report. */
    runners: z.array(RunnerView),
    payments: z.object({
      settling: PaymentsWaiting,
      review: PaymentsWaiting,
      /** The chain contradicts them, and no operator has acknowledged it; from the dispute. */
      disputed: PaymentsWaiting,
      refund_pending: PaymentsWaiting,
      refunds: RefundTotals,
    }),
    redis: z.object({
      durability: z.string(),
      /** Why Redis does not keep what was answered with 202, and what to do; null if it does. */
      problem: z.string().nullable(),
      /** How a write is known to be on disk; null if it is not. */
      proof: z.string().nullable(),
      used_memory_bytes: count.nullable(),
      /** 0 if Redis has no bound. */
      max_memory_bytes: count.nullable(),
    }),
  })
  .meta({ id: "Overview" });
export type OverviewView = z.infer<typeof OverviewView>;

/** Reads a deployment as a whole. */
export type Overview = {
  read(): Promise<OverviewView>;
  /** Reads the queues of a job and of the callbacks about its calls; without a job, all queues. */
  queues(job?: string): Promise<QueuesView[]>;
  flow: FlowApi;
  endpoints: EndpointsApi;
  prices: PricesApi;
  revenue: ReadRevenue;
};

type Deps = { mode: DurabilityMode; partition: Partition; configDir: string; env: Env; clock: Clock };

export function createOverview(deps: Deps): Overview {
  const flow = createFlowApi(deps);
  const queues = createReadQueues(deps, flow);
  return {
    read: createReadOverview(deps, queues),
    queues,
    flow,
    endpoints: createEndpointsApi({ ...deps, flow }),
    prices: createPricesApi(deps),
    revenue: createReadRevenue(deps),
  };
}

function createReadQueues({ partition, clock }: Deps, flow: FlowApi): Overview["queues"] {
  const registry = openRegistry(partition);
  return async function readQueues(job) {
    const [names, lastMinuteOf] = await Promise.all([registry.names(), flow.lastMinute(job)]);
    const depths = await registry.depths(
      job === undefined ? names : names.filter((queue) => jobOf(queue) === job),
    );
    const now = clock();
    return originsOf(depths).map((origin) => ({
      ...toQueues(origin, now, sumOfDepths(depths.filter(({ queue }) => originOf(queue) === origin))),
      last_minute: lastMinuteOf(origin),
    }));
  };
}

function createReadOverview(
  { partition, mode, configDir, env, clock }: Deps,
  readQueues: Overview["queues"],
): Overview["read"] {
  const jobs = openJobs(partition);
  const readProcesses = createReadProcesses(partition);
  const readUnresolved = createUnresolved(partition);
  const decimalsOf = decimalsFrom(createTokenSource({ configDir, env, clock }));
  const readRefundTotals = createReadRefundTotals(partition, decimalsOf);

  return async function readOverview() {
    const [queues, gates, workers, processes, unresolved, refunds, redis] = await Promise.all([
      readQueues(),
      jobs.gates(),
      lastBeats(partition),
      readProcesses(),
      readUnresolved(),
      readRefundTotals(),
      readRedis(partition.redis, mode),
    ]);
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
      redis,
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
  const views = processes.map(({ startedAt, silentMs, clockAheadMs, runners: _, ...rest }) => ({
    ...rest,
    started_at: toIso(startedAt),
    clock_ahead_ms: clockAheadMs,
    silent_ms: silentMs,
  }));
  return { processes: views, processes_unreadable: unreadable };
}

function toWaiting({ payments, oldestAt }: { payments: number; oldestAt: number | undefined }) {
  return { count: payments, oldest_at: isoOrNull(oldestAt) };
}

/** Whether Redis keeps now what this durability promises. */
async function readRedis(redis: Redis, durability: DurabilityMode): Promise<OverviewView["redis"]> {
  try {
    const { proof, usedMemoryBytes, maxMemoryBytes } = await readServerState(redis, durability);
    return {
      durability,
      problem: null,
      proof,
      used_memory_bytes: usedMemoryBytes,
      max_memory_bytes: maxMemoryBytes,
    };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return {
      durability,
      problem: error.message,
      proof: null,
      used_memory_bytes: null,
      max_memory_bytes: null,
    };
  }
}
