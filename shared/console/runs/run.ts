import { randomBytes } from "node:crypto";

/*
 * A run is work of an operator's that outlives the request that began it: some process of `postern operator` does it, and another one goes
 * on with it if that one dies. So it has to be work of which each step may be done again.
 *
 *   waiting ─taken─► running ─► done
 *      ▲              │  └─► stopped     by a failure that would come again
 *      │              └────► cancelled   by an operator
 *      └── resumed ───────────┘ (of the last two)
 *
 * The process that does it holds it by a lease. If the lease lapses, or the process stops, the run waits again, with its progress.
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
  /** What kind of work it is: what takes it knows how to do it. */
  kind: string;
  /** The operator who began it. */
  by: string;
  /** Who had it go on after it was cancelled or had stopped. */
  resumedBy: string | undefined;
  /** What was asked for, as JSON. */
  request: unknown;
  state: RunState;
  /** Whether it was asked to end before it is done. */
  isCancelling: boolean;
  /** What is known of it so far, as JSON; undefined before there is anything. */
  progress: unknown;
  /** Why it stopped. */
  failure: { code: string; reason: string } | undefined;
  /** When it was begun, and when it ended; unix ms by Redis' clock. */
  at: number;
  endedAt: number | undefined;
};

/** So many may wait or run at once. */
export const OPEN_RUNS_MAX = 20;

/** So many are known, the newest; and one that has ended for so long. */
export const RUNS_KEPT = 200;
export const RUN_KEPT_MS = 7 * 86_400_000;
