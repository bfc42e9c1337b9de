import { randomBytes } from "node:crypto";

/*
 * A run is the record of a bulk operation, which outlives the request that begins it. A process of `postern operator`
 * carries it out. If that process dies, another one continues. So each step of the work must be safe to repeat.
 *
 *   waiting ─taken─► running ─► done
 *      ▲              │  └─► stopped     by a failure that would happen again
 *      │              └────► cancelled   by an operator
 *      └── resumed ───────────┘ (if stopped or cancelled)
 *
 * The process that works on a run holds a lease on it. If the lease expires, or the process stops, the run waits again
 * with its progress.
 */

export const RUN_STATES = ["waiting", "running", "done", "stopped", "cancelled"] as const;
export type RunState = (typeof RUN_STATES)[number];

/** `run_` and 32 hex digits. */
export const RUN_ID = /^run_[0-9a-f]{32}$/;
export const NOT_A_RUN_ID = "must be the id of a bulk operation: run_ and 32 lower-case hex digits";

export function newRunId(): string {
  return `run_${randomBytes(16).toString("hex")}`;
}

export type Run = {
  id: string;
  /** Kind of work, which determines the function that carries it out. */
  kind: string;
  /** The operator who began the run. */
  by: string;
  /** The operator who resumed the run after it was cancelled or had stopped; undefined if none did. */
  resumedBy: string | undefined;
  /** The request, as JSON. */
  request: unknown;
  state: RunState;
  /** Whether an operator has requested an early end. */
  isCancelling: boolean;
  /** Progress, as JSON; undefined before there is any. */
  progress: unknown;
  /** The error that stopped the run. */
  failure: { code: string; reason: string } | undefined;
  /** Times at which the run was created and ended; unix ms by Redis' clock. */
  at: number;
  endedAt: number | undefined;
};

/** Limit on the runs that are waiting or running. */
export const OPEN_RUNS_MAX = 20;

/** Limit on the number of stored runs, and on the time for which an ended run is stored. */
export const RUNS_KEPT = 200;
export const RUN_KEPT_MS = 7 * 86_400_000;
