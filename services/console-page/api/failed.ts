import type { BulkView } from "../../../shared/console/bulk-operations.ts";
import type { FailedPage } from "../../../shared/console/failed.ts";
import type { FailedBulkView as Run } from "../../../shared/console/failed-bulk.ts";
import type { Query } from "../url-fragment.ts";
import { request } from "./ask.ts";

export type {
  FailedCallView as FailedCall,
  FailedGroupView as FailedGroup,
} from "../../../shared/console/failed.ts";
export type { FailedBulkView as Run } from "../../../shared/console/failed-bulk.ts";

/** A filter of failed calls. A call matches if it matches every field that is set. */
export type FailedFilter = {
  origin?: string | undefined;
  service_id?: number | undefined;
  job_id?: number | undefined;
  endpoint?: string | undefined;
  code?: string | undefined;
  text?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
};

export type RunAction = Run["kind"];

/**
 * Failed calls that a bulk operation replays or discards: those with the listed ids, or all that match a filter. With
 * `limit`, only that many of the oldest.
 */
export type Selection = { ids: string[] } | { filter: FailedFilter; limit?: number };

export const isFailedRun = (view: BulkView): view is Run => view.kind === "replay" || view.kind === "discard";

export const isRunning = ({ state }: Pick<BulkView, "state">): boolean =>
  state === "waiting" || state === "running" || state === "cancelling";

/**
 * Whether the data about a bulk operation can still change. After a replay has ended, its outcome changes until none of
 * the replayed calls is in the queue or in flight.
 */
export const isOpen = (run: BulkView): boolean =>
  isRunning(run) ||
  (run.kind === "replay" && !run.dry_run && (run.outcome === null || run.outcome.waiting > 0));

export const readFailed = (query: Query, signal: AbortSignal): Promise<FailedPage> =>
  request("GET", "api/v1/failed", query, signal);

export type RunRequest = { action: RunAction; selection: Selection; force: boolean };

/** Starts a replay or discard. With `dry_run`, the console only counts the calls, and changes none. */
export function startRun(wish: RunRequest & { reason: string; dry_run: boolean }): Promise<Run> {
  const { action, selection, force, reason, dry_run } = wish;
  const order = { ...toRequestBody(selection), reason, dry_run };
  return action === "replay"
    ? request("POST", "api/v1/failed/replays", { ...order, force })
    : request("POST", "api/v1/failed/discards", order);
}

/**
 * Builds the part of the request's body that selects the calls. For an empty filter it is `all: true`, because the
 * console refuses a request that does not say which calls it means.
 */
function toRequestBody(selection: Selection) {
  if ("ids" in selection) return { call_ids: selection.ids };
  const filter = Object.fromEntries(
    Object.entries(selection.filter).filter(([, value]) => value !== undefined),
  );
  const { limit } = selection;
  return {
    ...(Object.keys(filter).length === 0 ? { all: true as const } : { filter }),
    ...(limit !== undefined && { limit }),
  };
}

export const cancelRun = ({ id }: Pick<Run, "id">): Promise<BulkView> =>
  request("DELETE", "api/v1/bulk/{run_id}", { run_id: id });

export const resumeRun = ({ id }: Pick<Run, "id">): Promise<BulkView> =>
  request("POST", "api/v1/bulk/{run_id}/resume", { run_id: id });
