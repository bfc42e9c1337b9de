import type { Query } from "../route.ts";
import { ask } from "./ask.ts";
import type { PaidSum, PartialSum } from "./payments.ts";

export type FailedCall = {
  id: string;
  origin: string;
  path?: string;
  service_id: number;
  job_id: number;
  failed_at: string;
  accepted_at: string;
  attempts: number;
  code: string;
  reason: string;
};

export type FailedCallPage = { calls: FailedCall[]; next: string | null };

/** Calls of one origin of a job that failed with one code. */
export type FailedGroup = {
  origin: string;
  service_id: number;
  job_id: number;
  code: string;
  count: number;
  newest_at: string;
  newest_reason: string;
  /** So many failed in each hour of the last day, the oldest hour first. */
  by_hour: number[];
};

export const jobOf = ({ service_id, job_id }: { service_id: number; job_id: number }): string =>
  `${service_id}/${job_id}`;

/** Which failed calls: each member that is given must fit. */
export type FailedFilter = {
  origin?: string | undefined;
  service_id?: number | undefined;
  job_id?: number | undefined;
  endpoint?: string | undefined;
  code?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
};

export type RunAction = "replay" | "discard";

/** Which calls a run is about: these, or all that fit, but at most so many, the oldest first. */
export type Selection = { ids: string[] } | { filter: FailedFilter; limit?: number };

/** A replay or discard of many calls, as far as it is. */
export type Run = {
  id: string;
  kind: RunAction;
  state: "waiting" | "running" | "cancelling" | "done" | "stopped" | "cancelled";
  by: string;
  reason: string | null;
  selection: string;
  dry_run: boolean;
  begun_at: string;
  ended_at: string | null;
  /** Null until the calls are counted. Those that need force are left out, unless it is given. */
  matched: number | null;
  by_code: Record<string, number> | null;
  /** Of a discard: what was paid for these calls, whose refunds become due by it. Null until the calls are counted. */
  paid: PaidSum | null;
  needs_force_count: number | null;
  missing: { code: string; detail: string }[];
  done: number;
  /** Somebody else has replayed or discarded them meanwhile. */
  left_meanwhile: number;
  /** Of a discard: what was paid for the calls that it has ended, and is due back now. */
  refunds_due: PartialSum | null;
  remaining: number | null;
  failure: { code: string; reason: string } | null;
};

export const isUnderWay = ({ state }: Run): boolean =>
  state === "waiting" || state === "running" || state === "cancelling";

export const readFailed = (query: Query, signal: AbortSignal): Promise<FailedCallPage> =>
  ask("GET", "api/v1/failed", { query, signal });

const PATHS = { replay: "api/v1/failed/replays", discard: "api/v1/failed/discards" } as const;

export const RUNS = "api/v1/bulk";

export const runPath = ({ id }: Pick<Run, "id">): string => `${RUNS}/${id}`;

export type Wish = { action: RunAction; selection: Selection; force: boolean };

/** With `dry_run` it only counts which calls it would be. */
export function startRun(wish: Wish & { reason: string; dry_run: boolean }): Promise<Run> {
  const { action, selection, force, reason, dry_run } = wish;
  const body = { ...toOrder(selection), ...(action === "replay" && { force }), reason, dry_run };
  return ask<Run>("POST", PATHS[action], { body });
}

/** Without a filter it has to be said that all calls are meant. */
function toOrder(selection: Selection): object {
  if ("ids" in selection) return { call_ids: selection.ids };
  const filter = Object.fromEntries(
    Object.entries(selection.filter).filter(([, value]) => value !== undefined),
  );
  const { limit } = selection;
  return {
    ...(Object.keys(filter).length === 0 ? { all: true } : { filter }),
    ...(limit !== undefined && { limit }),
  };
}

export const cancelRun = (run: Run): Promise<Run> => ask<Run>("DELETE", runPath(run));

export const resumeRun = (run: Run): Promise<Run> => ask<Run>("POST", `${runPath(run)}/resume`);
