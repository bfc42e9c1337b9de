import {
  type BulkApi,
  type BulkRequest,
  type Counted,
  NOTHING_BEFORE,
} from "../../../shared/console/bulk.ts";
import { BulkRunView } from "../../../shared/console/bulk-runs.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import type { ConsoleClient } from "./client.ts";
import { failureOf, runAtConsole } from "./runs.ts";

const PATHS = { replay: "failed/replays", discard: "failed/discards" } as const;

/** Replays and discards many failed calls as runs of the console. */
export function createConsoleBulk(client: ConsoleClient): BulkApi {
  const runOf = ({ action }: BulkRequest, order: object) => ({
    ...{ schema: BulkRunView, path: PATHS[action], order },
  });

  return {
    async count(request, signal) {
      const order = { ...toOrder(request), dry_run: true };
      return toCounted(request, await runAtConsole(client, runOf(request, order), { signal }));
    },

    async operate(request, counted, { signal, onProgress, onDone, before = NOTHING_BEFORE }) {
      const total = counted.chosen;
      const progressOf = ({ done, left_meanwhile: left, refunds_due: refundsDue }: BulkRunView) => ({
        ...{ done: done + before.done, left: left + before.left, total, refundsDue },
      });
      // Of calls that have failed since the count none is taken, as it is when they are counted here.
      const until = request.filter.until ?? toIso(counted.newest);
      const order = toOrder({ ...request, filter: { ...request.filter, until } });
      const run = await runAtConsole(client, runOf(request, order), {
        signal,
        onProgress: (found) => onProgress(progressOf(found)),
      });
      const progress = progressOf(run);
      const remaining = Math.max(0, total - progress.done - progress.left);
      if (remaining === 0) for (const id of counted.named) onDone?.(id);
      return { ...progress, remaining, failure: failureOf(run) };
    },
  };
}

function toOrder({ action, filter, ids, limit, force, concurrency, reason }: BulkRequest): object {
  const isAll = ids === undefined && Object.values(filter).every((each) => each === undefined);
  return {
    filter,
    ...(ids !== undefined && { call_ids: ids }),
    ...(isAll && { all: true }),
    ...(limit !== undefined && { limit }),
    ...(action === "replay" && { force }),
    concurrency,
    reason: reason ?? `postern failed ${action}`,
  };
}

function toCounted({ ids = [] }: BulkRequest, run: BulkRunView): Counted {
  const { matched, by_code, paid, needs_force, needs_force_count, missing } = run;
  const failure = failureOf(run);
  if (failure !== undefined) throw failure;
  const isMissing = (id: string) => missing.some(({ detail }) => detail.startsWith(id));
  return {
    matched: matched ?? 0,
    chosen: (matched ?? 0) - (needs_force_count ?? 0),
    newest: Date.parse(run.begun_at),
    by_code: by_code ?? {},
    ...{ paid, needs_force, missing },
    named: ids.filter((id) => !isMissing(id) && !needs_force.includes(id)),
  };
}
