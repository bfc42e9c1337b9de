import type { BulkView } from "../../../shared/console/bulk-operations.ts";
import type { FailedPage } from "../../../shared/console/failed.ts";
import type { FailedBulkView as Run } from "../../../shared/console/failed-bulk.ts";
import type { Query } from "../url-fragment.ts";
import { ask } from "./ask.ts";

export type {
  FailedCallView as FailedCall,
  FailedGroupView as FailedGroup,
} from "../../../shared/console/failed.ts";
export type { FailedBulkView as Run } from "../../../shared/console/failed-bulk.ts";

/** Selects failed calls that meet every field present. */
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

/** Which calls a run is about: these, or all that fit, but at most so many, the oldest first. */
export type Selection = { ids: string[] } | { filter: FailedFilter; limit?: number };

export const isFailedRun = (view: BulkView): view is Run => view.kind === "replay" || view.kind === "discard";

export const isUnderWay = ({ state }: Pick<BulkView, "state">): boolean =>
  state === "waiting" || state === "running" || state === "cancelling";

/** Whether its view still changes. A replay that has ended still counts the calls that wait. */
export const isOpen = (run: BulkView): boolean =>
  isUnderWay(run) ||
  (run.kind === "replay" && !run.dry_run && (run.outcome === null || run.outcome.waiting > 0));

export const readFailed = (query: Query, signal: AbortSignal): Promise<FailedPage> =>
  ask("GET", "api/v1/failed", query, signal);

export type Wish = { action: RunAction; selection: Selection; force: boolean };

/** With `dry_run` it only counts which calls it would be. */
export function startRun(wish: Wish & { reason: string; dry_run: boolean }): Promise<Run> {
  const { action, selection, force, reason, dry_run } = wish;
  const order = { ...toOrder(selection), reason, dry_run };
  return action === "replay"
    ? ask("POST", "api/v1/failed/replays", { ...order, force })
    : ask("POST", "api/v1/failed/discards", order);
}

/** Without a filter it has to be said that all calls are meant. */
function toOrder(selection: Selection) {
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
  ask("DELETE", "api/v1/bulk/{run_id}", { run_id: id });

export const resumeRun = ({ id }: Pick<Run, "id">): Promise<BulkView> =>
  ask("POST", "api/v1/bulk/{run_id}/resume", { run_id: id });
