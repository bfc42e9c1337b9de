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
  NOTHING_BEFORE,
  selectionOf,
} from "./bulk.ts";
import { FailedFilter } from "./failed.ts";
import { PaidSum, PartialSum } from "./paid-sum.ts";
import { ReplayOutcome } from "./replay-outcome.ts";
import type { Run } from "./runs/run.ts";
import { RunHead, toHead } from "./runs/view.ts";
import type { DoRun } from "./runs/worker.ts";
import { count } from "./view.ts";

/** The calls that a bulk operation is about, if they are named. */
export const namedCalls = z.array(z.string().regex(CALL_ID, NOT_A_CALL_ID)).min(1).max(1000);

/** Why a call that was named is not among those that a bulk operation is about. */
export const MissingCall = z.object({ code: z.string(), detail: z.string() }).meta({ id: "MissingCall" });

/** Which failed calls, and how: what begins a run. */
export const BulkOrder = z.strictObject({
  filter: FailedFilter.default({}),
  /** Only these of the calls that match. */
  call_ids: namedCalls.optional(),
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

const StoredOrder = BulkOrder.extend({ reason: z.string().optional() });
export type StoredOrder = z.infer<typeof StoredOrder>;

const Progress = z.object({
  counted: Counted.optional(),
  done: count,
  left: count,
  refundsDue: PartialSum.nullable(),
});

/** The state of a replay or discard of many failed calls. */
export const FailedBulkView = RunHead.extend({
  kind: z.enum(BULK_ACTIONS),
  dry_run: z.boolean(),
  force: z.boolean(),
  limit: count.nullable(),
  /** Null until the calls are counted. Calls that need force are left out. */
  matched: count.nullable(),
  by_code: z.record(z.string(), count).nullable(),
  /** Of a discard: what was paid for these calls, whose refunds become due by it. Null until the calls are counted. */
  paid: PaidSum.nullable(),
  needs_force_count: count.nullable(),
  /** The first of them. */
  needs_force: z.array(z.string()),
  /** Of calls that were named, those that are not among the failed ones. */
  missing: z.array(MissingCall),
  done: count,
  /** Replayed or discarded by somebody else meanwhile, or in the moment in which a process of the service died. */
  left_meanwhile: count,
  /**
   * Of a discard: what was paid for the calls that it has ended, and is due back now. Null before the first. It is not whole if calls have
   * left meanwhile, or another discard had begun with them: they may have been ended by a process that died.
   */
  refunds_due: PartialSum.nullable(),
  remaining: count.nullable(),
  /** Outcome so far of a replay that has ended. Null before its end, for a discard, and in a list. */
  outcome: ReplayOutcome.nullable(),
}).meta({ id: "FailedBulk" });
export type FailedBulkView = z.infer<typeof FailedBulkView>;

/** Excludes calls that fail after `now`, however late the calls are counted. */
export function untilNow(order: StoredOrder, now: number): StoredOrder {
  const isOpen = order.call_ids === undefined && order.filter.until === undefined;
  return isOpen ? { ...order, filter: { ...order.filter, until: toIso(now) } } : order;
}

export function failedSelection(request: unknown): string {
  const { filter, call_ids: ids } = StoredOrder.parse(request);
  return selectionOf({ filter, ids });
}

/** How a process does such operations. Calls that are done already are skipped. */
export function failedBulk(deps: Omit<Parameters<typeof createBulk>[0], "by">): Record<BulkAction, DoRun> {
  const doRun: DoRun = async ({ run, signal, tell, told }) => {
    const bulk = createBulk({ ...deps, by: run.resumedBy ?? run.by });
    const { dry_run: isDry, ...order } = StoredOrder.parse(run.request);
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
  return Progress.parse(progress ?? NOTHING_BEFORE);
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
