import type { RefundTotals } from "./payments.ts";

/** Counts of calls in each span of time, oldest first. The last span has only begun. Percentiles are estimates. */
export type FlowLine = {
  origin: string;
  accepted: number[];
  refused: number[];
  injected: number[];
  failed: number[];
  p50_ms: (number | null)[];
  p99_ms: (number | null)[];
};

export type FlowJob = {
  origin: string;
  /** Null of the jobs that found no place. */
  job: string | null;
  accepted: number;
  injected: number;
  delayed: number;
  failed: number;
  /** The attempts that failed, by error code. */
  failures: Record<string, number>;
  p50_ms: number | null;
  p99_ms: number | null;
};

export type Flow = {
  from: string;
  step_ms: number;
  lines: FlowLine[];
  jobs: FlowJob[];
};

/** Counts of an origin's queues together: all of them, or those of one job. */
export type Queues = {
  origin: string;
  waiting: number;
  delayed: number;
  active: number;
  failed: number;
  oldest_age_ms: number | null;
};

export type ProcessStatus = {
  kind: string;
  host: string;
  pid: number;
  version: string;
  config: string;
  durability: string;
  started_at: string;
  silent_ms: number;
};

/** A runner as all producers see it. */
export type RunnerStatus = {
  name: string;
  url: string;
  /** The worst that one of them sees: `away`, `silent`, `answers`, or `unasked`. */
  state: string;
  since: string | null;
  reason: string | null;
  answered_at: string | null;
  producers: number;
  /** For how many of them it is silent or away. */
  unanswered: number;
};

export type RedisStatus = {
  durability: string;
  /** Why it does not keep what was answered with 202. */
  problem: string | null;
  proof: string | null;
  used_memory_bytes: number | null;
  /** 0 if it has no bound. */
  max_memory_bytes: number | null;
};

type PaymentsWaiting = { count: number; oldest_at: string | null };

/** How the deployment is now. */
export type Overview = {
  at: string;
  queues: Queues[];
  paused_jobs: string[];
  workers: { id: string; heartbeat_age_ms: number }[];
  processes: ProcessStatus[];
  processes_unreadable: number;
  runners: RunnerStatus[];
  payments: {
    settling: PaymentsWaiting;
    review: PaymentsWaiting;
    refund_pending: PaymentsWaiting;
    refunds: RefundTotals;
  };
  redis: RedisStatus;
};

/** How full Redis is; undefined if it has no bound, or does not say. */
export function memoryRatio({
  used_memory_bytes: used,
  max_memory_bytes: most,
}: RedisStatus): number | undefined {
  return used === null || most === null || most === 0 ? undefined : used / most;
}
