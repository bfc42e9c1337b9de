import type { Query } from "../route.ts";
import { ask } from "./ask.ts";

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

/** Which calls a run is about: these, or all that fit. */
export type Selection = { ids: string[] } | FailedFilter;

/** What a run would do. */
export type Preview = {
  matched: number;
  by_code: Record<string, number>;
  needs_force_count: number;
};

/** A replay or discard of many calls, under way or ended. */
export type Run = {
  id: string;
  action: RunAction;
  state: "running" | "done" | "cancelled" | "interrupted" | "failed";
  by: string;
  reason: string;
  selection: string;
  started_at: string;
  ended_at: string | null;
  total: number;
  done: number;
  left_meanwhile: number;
  failure: string | null;
};

export const readFailed = (query: Query, signal: AbortSignal): Promise<FailedCallPage> =>
  ask("GET", "api/v1/failed", { query, signal });

export type Wish = { action: RunAction; selection: Selection; force: boolean };

export const preview = (wish: Wish): Promise<Preview> =>
  ask<Preview>("POST", "api/v1/runs", { body: { ...wish, dry_run: true } });

export const startRun = (wish: Wish & { reason: string }): Promise<Run> =>
  ask<Run>("POST", "api/v1/runs", { body: wish });

export const cancelRun = (id: string): Promise<Run> => ask<Run>("POST", `api/v1/runs/${id}/cancel`);
export const resumeRun = (id: string): Promise<Run> => ask<Run>("POST", `api/v1/runs/${id}/resume`);
