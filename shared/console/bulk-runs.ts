import { z } from "zod";
import { CALL_ID } from "../call/call-id.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import { toIso } from "../platform/time/iso.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { logAudited } from "../redis/audit/audit.ts";
import {
  BEGINS,
  BULK_ACTIONS,
  type BulkAction,
  type BulkProgress,
  type BulkRequest,
  Counted,
  createBulk,
  NOTHING_BEFORE,
  selectionOf,
} from "./bulk.ts";
import { FailedFilter } from "./failed.ts";
import { PaidSum, PartialSum } from "./paid-sum.ts";
import { RUN_STATES, type Run } from "./runs/run.ts";
import { createRunStore } from "./runs/store.ts";
import type { DoRun } from "./runs/worker.ts";
import { count, isoOrNull, isoTime } from "./view.ts";

export const IDS_MAX = 1000;

/** Which failed calls, and how: what begins a run. */
export const BulkOrder = z.strictObject({
  filter: FailedFilter.default({}),
  /** Only these of the calls that match. */
  call_ids: z.array(z.string().regex(CALL_ID)).min(1).max(IDS_MAX).optional(),
  /** Every failed call; needed if no call is named and the filter is empty. */
  all: z.literal(true).optional(),
  /** At most so many, the oldest first. */
  limit: z.int().min(1).optional(),
  /** Of a replay: also calls that their runner may run twice. */
  force: z.boolean().default(false),
  /** Calls at a time. */
  concurrency: z.int().min(1).max(100).default(8),
  /** Count the calls, and change nothing. */
  dry_run: z.boolean().default(false),
});
export type BulkOrder = z.infer<typeof BulkOrder>;

const Stored = BulkOrder.extend({ reason: z.string().optional() });

const Progress = z.object({
  counted: Counted.optional(),
  done: count,
  left: count,
  refundsDue: PartialSum.nullable(),
});

/** A replay or discard of many failed calls, as far as it is. */
export const BulkRunView = z.object({
  id: z.string(),
  action: z.enum(BULK_ACTIONS),
  /** `cancelling`: it ends as soon as the calls in hand are done. */
  state: z.enum([...RUN_STATES, "cancelling"]),
  by: z.string(),
  /** Who had it go on after it was cancelled or had stopped: what it did from then on stands under this name in the audit. */
  resumed_by: z.string().nullable(),
  reason: z.string().nullable(),
  /** How the calls are chosen: as the options of `postern failed`, or by id. */
  selection: z.string(),
  dry_run: z.boolean(),
  force: z.boolean(),
  limit: count.nullable(),
  begun_at: isoTime,
  ended_at: isoTime.nullable(),
  /** Null until the calls are counted. Calls that need force are left out. */
  matched: count.nullable(),
  by_code: z.record(z.string(), count).nullable(),
  /** Of a discard: what was paid for these calls, whose refunds become due by it. Null until the calls are counted. */
  paid: PaidSum.nullable(),
  needs_force_count: count.nullable(),
  /** The first of them. */
  needs_force: z.array(z.string()),
  /** Of calls that were named, those that are not among the failed ones. */
  missing: z.array(z.object({ code: z.string(), detail: z.string() })),
  done: count,
  /** Replayed or discarded by somebody else meanwhile, or in the moment in which a process of the service died. */
  left_meanwhile: count,
  /**
   * Of a discard: what was paid for the calls that it has ended, and is due back now. Null before the first. It is not whole if calls have
   * left meanwhile, or another discard had begun with them: they may have been ended by a process that died.
   */
  refunds_due: PartialSum.nullable(),
  remaining: count.nullable(),
  /** Why it stopped. */
  failure: z.object({ code: z.string(), reason: z.string() }).nullable(),
});
export type BulkRunView = z.infer<typeof BulkRunView>;

export type BulkRunsApi = {
  /** Throws `run.too_many`. */
  begin(action: BulkAction, order: BulkOrder & { reason: string | undefined }): Promise<BulkRunView>;
  /** So many of the newest, the newest first. */
  list(action: BulkAction, limit: number): Promise<BulkRunView[]>;
  /** Throws `run.unknown`, as the others do. */
  show(action: BulkAction, id: string): Promise<BulkRunView>;
  cancel(action: BulkAction, id: string): Promise<BulkRunView>;
  /** Goes on with what is left of one that was cancelled or has stopped. Throws `run.not_resumable` and `run.too_many`. */
  resume(action: BulkAction, id: string): Promise<BulkRunView>;
};

type Deps = OperateDeps & {
  /** Tells the worker of this process that there is something to do. */
  wake: () => void;
};

/** Runs that replay or discard many failed calls, each call as a single one is. */
export function createBulkRunsApi({ partition, clock, log, by, wake }: Deps): BulkRunsApi {
  const runs = createRunStore(partition);

  async function find(action: BulkAction, id: string): Promise<Run> {
    const run = await runs.find(id);
    if (run?.kind === action) return run;
    throw AppError.public("run.unknown", `there is no bulk ${action} ${id}, or it is no longer kept`);
  }

  return {
    async begin(action, order) {
      // What fails from now on is not chosen, however late the calls are counted.
      const isOpen = order.call_ids === undefined && order.filter.until === undefined;
      const filter = isOpen ? { ...order.filter, until: toIso(clock()) } : order.filter;
      const { reason, dry_run: isDry } = order;
      const selection = selectionOf({ filter, ids: order.call_ids });
      const at = clock();
      const actOf = (run: string) => ({ at, action: BEGINS[action], run, by, selection, reason }) as const;
      const request = { kind: action, by, request: { ...order, filter } };
      const run = await runs.create(request, isDry ? undefined : actOf);
      if (!isDry) logAudited(log, actOf(run.id));
      wake();
      return toView(run);
    },

    list: async (action, limit) => (await runs.list(action, { limit })).map(toView),

    show: async (action, id) => toView(await find(action, id)),

    async cancel(action, id) {
      await find(action, id);
      const act = { at: clock(), action: "cancel_run", run: id, by, selection: action } as const;
      const run = await runs.cancel(act);
      logAudited(log, act);
      wake();
      return toView(run);
    },

    async resume(action, id) {
      await find(action, id);
      const act = { at: clock(), action: "resume_run", run: id, by, selection: action } as const;
      const run = await runs.resume(act);
      logAudited(log, act);
      wake();
      return toView(run);
    },
  };
}

/** How a process does such runs, whoever began them. Of calls that are done already nothing is done again. */
export function bulkRuns(deps: Omit<Parameters<typeof createBulk>[0], "by">): Record<BulkAction, DoRun> {
  const doRun: DoRun = async ({ run, signal, tell, told }) => {
    const bulk = createBulk({ ...deps, by: run.resumedBy ?? run.by });
    const { dry_run: isDry, ...order } = Stored.parse(run.request);
    const request = { ...toRequest(run.kind as BulkAction, order), run: run.id };
    const { counted: known, ...before } = progressOf(run);
    const counted = known ?? (await bulk.count(request, signal));
    if (known === undefined) {
      if (signal.aborted) return; // it may be but a part
      await told({ counted, ...before });
      failpoint("console.after_counted");
    }
    if (isDry || signal.aborted) return;
    const onProgress = ({ done, left, refundsDue }: BulkProgress) =>
      tell({ counted, done, left, refundsDue });
    const result = await bulk.operate(request, counted, {
      ...{ signal, before, onProgress },
      onDone: () => failpoint("console.after_operated"),
    });
    onProgress(result);
    if (result.failure !== undefined) throw result.failure;
  };
  return { replay: doRun, discard: doRun };
}

function toRequest(
  action: BulkAction,
  { filter, call_ids: ids, limit, force, concurrency, reason }: Omit<z.infer<typeof Stored>, "dry_run">,
): BulkRequest {
  return { action, filter, ids, limit, force: force || action === "discard", concurrency, reason };
}

function progressOf({ progress }: Run): z.infer<typeof Progress> {
  return Progress.parse(progress ?? NOTHING_BEFORE);
}

function toView(run: Run): BulkRunView {
  const { id, kind, state, by, resumedBy, isCancelling, at, endedAt, failure } = run;
  const { filter, call_ids: ids, dry_run, force, limit, reason } = Stored.parse(run.request);
  const { counted, done, left, refundsDue } = progressOf(run);
  const isOpen = state === "waiting" || state === "running";
  return {
    ...{ id, action: kind as BulkAction, state: isCancelling && isOpen ? "cancelling" : state },
    ...{ by, resumed_by: resumedBy ?? null, reason: reason ?? null },
    ...{ selection: selectionOf({ filter, ids }), dry_run, force },
    ...{ limit: limit ?? null, begun_at: toIso(at), ended_at: isoOrNull(endedAt) },
    matched: counted?.matched ?? null,
    by_code: counted?.by_code ?? null,
    paid: counted?.paid ?? null,
    needs_force_count: counted === undefined ? null : counted.matched - counted.chosen,
    needs_force: counted?.needs_force ?? [],
    missing: counted?.missing ?? [],
    ...{ done, left_meanwhile: left, refunds_due: refundsDue },
    remaining: counted === undefined ? null : counted.chosen - done - left,
    failure: failure ?? null,
  };
}
