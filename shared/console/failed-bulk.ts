import { z } from "zod";
import { CALL_ID, NOT_A_CALL_ID } from "../call/call-id.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import { toIso } from "../platform/time/iso.ts";
import {
  BULK_ACTIONS,
  type BulkAction,
  type BulkProgress,
  type BulkRequest,
  Counted,
  createBulk,
  NO_PROGRESS,
  selectionOf,
} from "./bulk.ts";
import { FailedFilter } from "./failed.ts";
import { PaidSum, PartialSum } from "./paid-sum.ts";
import { ReplayOutcome } from "./replay-outcome.ts";
import type { Run } from "./runs/run.ts";
import { RunHead, toHead } from "./runs/view.ts";
import type { DoRun } from "./runs/worker.ts";
import { count } from "./view.ts";

/** Ids of the calls for a bulk operation. */
export const namedCalls = z.array(z.string().regex(CALL_ID, NOT_A_CALL_ID)).min(1).max(1000);

/** The reason why a bulk operation cannot process a named call. */
export const MissingCall = z.object({ code: z.string(), detail: z.string() }).meta({ id: "MissingCall" });

/** Asks for a replay or discard of many failed calls. */
export const BulkOrder = z.strictObject({
  filter: FailedFilter.default({}),
  /** Ids of the calls to select. Only those that also match the filter are selected. */
  call_ids: namedCalls.optional(),
  /** Selects every failed call. Required if no call is named and the filter is empty. */
  all: z.literal(true).optional(),
  /** Limit on the number of selected calls; the oldest are selected. */
  limit: z.int().min(1).optional(),
  /**
   * Whether a replay includes calls that were accepted so long ago that their runner may have forgotten them and run them
   * twice.
   */
  force: z.boolean().default(false),
  /** Number of calls that are processed at once. */
  concurrency: z.int().min(1).max(100).default(8),
  /** Whether to count the calls without changing them. */
  dry_run: z.boolean().default(false),
});
export type BulkOrder = z.infer<typeof BulkOrder>;

const StoredOrder = BulkOrder.extend({ reason: z.string().optional() });
export type StoredOrder = z.infer<typeof StoredOrder>;

const Progress = z.object({
  counted: Counted.optional(),
  done: count,
  left: count,
  refundsDue: PartialSum.nullable(),
});

/** State of a replay or discard of many failed calls. */
export const FailedBulkView = RunHead.extend({
  kind: z.enum(BULK_ACTIONS),
  dry_run: z.boolean(),
  force: z.boolean(),
  limit: count.nullable(),
  /**
   * Number of selected calls, including those that are too old to be replayed without `force`. Null until the calls are
   * counted.
   */
  matched: count.nullable(),
  by_code: z.record(z.string(), count).nullable(),
  /**
   * Sum paid for the selected calls, which a discard makes due as refunds. Null for a replay, and until the calls are
   * counted.
   */
  paid: PaidSum.nullable(),
  needs_force_count: count.nullable(),
  /** Ids of calls that are too old to be replayed without `force`, at most 1000. */
  needs_force: z.array(z.string()),
  /** The calls that the request names by id and that are not failed calls, each with the reason. */
  missing: z.array(MissingCall),
  done: count,
  /**
   * Number of calls that another operator replayed or discarded during this operation. The process of this operation may die
   * just after it has changed a call. The process that continues then counts this call here.
   */
  left_meanwhile: count,
  /**
   * Sum paid for the calls that this discard has ended. Their refunds are now due. Null before the first call. The sum lacks
   * a payment if another operation discarded its call. It also lacks one if a process of this discard died just after it had
   * discarded the call.
   */
  refunds_due: PartialSum.nullable(),
  remaining: count.nullable(),
  /**
   * Numbers of the replayed calls by their present outcome, once the replay has ended. Null for other operations, and in
   * lists of operations.
   */
  outcome: ReplayOutcome.nullable(),
}).meta({ id: "FailedBulk" });
export type FailedBulkView = z.infer<typeof FailedBulkView>;

/**
 * Excludes calls that fail after `now`, the time of the operator's request. Another process may count the calls much later,
 * and the operator has not seen later failures. An order with ids or `until` is unchanged.
 */
export function untilNow(order: StoredOrder, now: number): StoredOrder {
  const isOpen = order.call_ids === undefined && order.filter.until === undefined;
  return isOpen ? { ...order, filter: { ...order.filter, until: toIso(now) } } : order;
}

export function failedSelection(request: unknown): string {
  const { filter, call_ids: ids } = StoredOrder.parse(request);
  return selectionOf({ filter, ids });
}

/**
 * Performs bulk replays and discards. A process that continues an interrupted one skips the calls that are already replayed
 * or discarded.
 */
export function failedBulk(deps: Omit<Parameters<typeof createBulk>[0], "by">): Record<BulkAction, DoRun> {
  const doRun: DoRun = async ({ run, signal, storeProgressSoon, storeProgress }) => {
    const bulk = createBulk({ ...deps, by: run.resumedBy ?? run.by });
    const { dry_run: isDry, ...order } = StoredOrder.parse(run.request);
    const request = { ...toRequest(run.kind as BulkAction, order), run: run.id };
    const { counted: known, ...before } = progressOf(run);
    const counted = known ?? (await bulk.count(request, signal));
    if (known === undefined) {
      if (signal.aborted) return; // the count was aborted, so it may be incomplete
      await storeProgress({ counted, ...before });
      failpoint("console.after_counted");
    }
    if (isDry || signal.aborted) return;
    const onProgress = ({ done, left, refundsDue }: BulkProgress) =>
      storeProgressSoon({ counted, done, left, refundsDue });
    const result = await bulk.operate(request, counted, {
      signal,
      before,
      onProgress,
      onDone: () => failpoint("console.after_operated"),
    });
    onProgress(result);
    if (result.failure !== undefined) throw result.failure;
  };
  return { replay: doRun, discard: doRun };
}

function toRequest(
  action: BulkAction,
  { filter, call_ids: ids, limit, force, concurrency, reason }: Omit<StoredOrder, "dry_run">,
): BulkRequest {
  return { action, filter, ids, limit, force: force || action === "discard", concurrency, reason };
}

function progressOf({ progress }: Run): z.infer<typeof Progress> {
  return Progress.parse(progress ?? NO_PROGRESS);
}

export function toFailedBulkView(run: Run): FailedBulkView {
  const { dry_run, force, limit } = StoredOrder.parse(run.request);
  const { counted, done, left, refundsDue } = progressOf(run);
  return {
    ...toHead(run, failedSelection(run.request)),
    kind: run.kind as BulkAction,
    dry_run,
    force,
    limit: limit ?? null,
    matched: counted?.matched ?? null,
    by_code: counted?.by_code ?? null,
    paid: counted?.paid ?? null,
    needs_force_count: counted === undefined ? null : counted.matched - counted.chosen,
    needs_force: counted?.needs_force ?? [],
    missing: counted?.missing ?? [],
    done,
    left_meanwhile: left,
    refunds_due: refundsDue,
    remaining: counted === undefined ? null : counted.chosen - done - left,
    outcome: null,
  };
}
