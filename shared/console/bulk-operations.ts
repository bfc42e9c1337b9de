import { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";
import type { OperatorDeps } from "../queue/operate.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { logAudited } from "../redis/audit/audit.ts";
import {
  type AcknowledgeOrder,
  AcknowledgeView,
  acknowledgeBulk,
  acknowledgeSelection,
  toAcknowledgeView,
} from "./acknowledge-bulk.ts";
import { BEGINS, type BulkAction } from "./bulk.ts";
import {
  FailedBulkView,
  failedBulk,
  failedSelection,
  type StoredOrder,
  toFailedBulkView,
  untilNow,
} from "./failed-bulk.ts";
import { ALL_PENDING, createCheckRefunds, RefundCheck } from "./refund-check.ts";
import { createReadReplayOutcome } from "./replay-outcome.ts";
import type { Run } from "./runs/run.ts";
import type { Runs } from "./runs/store.ts";
import { RunHead, toHead } from "./runs/view.ts";
import type { DoRun } from "./runs/worker.ts";
import type { TokenSource } from "./tokens.ts";
import {
  chooseTokens,
  createFindMatches,
  MatchOrder,
  matchSelection,
  TransferMatches,
} from "./transfer-matches.ts";
import { createAuditing } from "./unaudited.ts";

/** State of an audit of payments: a bulk operation that matches the transfers on the chain with the payments. */
export const AuditView = RunHead.extend({
  kind: z.literal("audit"),
  order: MatchOrder,
  /**
   * Result for the tokens whose payments were matched so far. It is complete in state `done`. Null before the first
   * token, and in lists of bulk operations.
   */
  result: TransferMatches.nullable(),
}).meta({ id: "Audit" });
export type AuditView = z.infer<typeof AuditView>;

/** State of a refund check: a bulk operation that searches the chain for transfers that pay refunds. */
export const RefundCheckView = RunHead.extend({
  kind: z.literal("refund-check"),
  /** Null until the search has ended, and in lists of bulk operations. */
  result: RefundCheck.nullable(),
}).meta({ id: "RefundCheck" });
export type RefundCheckView = z.infer<typeof RefundCheckView>;

/**
 * State of a bulk operation of any kind. A bulk operation continues after the request that began it has been answered.
 */
export const BulkView = z
  .discriminatedUnion("kind", [FailedBulkView, AcknowledgeView, AuditView, RefundCheckView])
  .meta({ id: "Bulk" });
export type BulkView = z.infer<typeof BulkView>;

export const BULK_KINDS = ["replay", "discard", "acknowledge", "audit", "refund-check"] as const;
export type BulkKind = (typeof BULK_KINDS)[number];

type Kind = {
  selectionOf(request: unknown): string;
  toView(run: Run): BulkView;
  /** Whether a list of bulk operations includes the progress of operations of this kind, which may be large. */
  isListedWhole: boolean;
};

const FAILED: Kind = { selectionOf: failedSelection, toView: toFailedBulkView, isListedWhole: true };

const KINDS: Record<BulkKind, Kind> = {
  replay: FAILED,
  discard: FAILED,
  acknowledge: { selectionOf: acknowledgeSelection, toView: toAcknowledgeView, isListedWhole: true },
  audit: {
    selectionOf: (request) => matchSelection(MatchOrder.parse(request)),
    toView: toAuditView,
    isListedWhole: false,
  },
  "refund-check": { selectionOf: () => ALL_PENDING, toView: toRefundCheckView, isListedWhole: false },
};

type Deps = OperatorDeps & {
  runs: Runs;
  tokens: TokenSource;
  /** Makes the worker of this process look for a waiting bulk operation now, instead of at its next regular check. */
  wake?: () => void;
};

/**
 * Begins, shows and changes bulk operations. Beginning one throws `run.too_many` if too many others are waiting or
 * running.
 */
export function createBulkOperations({ runs, clock, log, by, wake, tokens, partitions }: Deps) {
  const readOutcome = createReadReplayOutcome(partitions, clock);

  async function find(id: string): Promise<Run> {
    const run = await runs.find(id);
    if (run !== undefined && run.kind in KINDS) return run;
    throw AppError.public("run.unknown", `there is no bulk operation ${id}, or it is no longer kept`);
  }

  async function begin(kind: BulkKind, request: { reason?: string | undefined }, writesAuditLine = true) {
    const selection = KINDS[kind].selectionOf(request);
    const line = { at: clock(), action: BEGINS[kind], by, selection, reason: request.reason };
    const actOf = (run: string) => ({ ...line, run });
    const run = await runs.create({ kind, by, request }, writesAuditLine ? actOf : undefined);
    if (writesAuditLine) logAudited(log, actOf(run.id));
    wake?.();
    return run;
  }

  async function change(id: string, change: "cancel" | "resume"): Promise<BulkView> {
    const { kind } = await find(id);
    const act = { at: clock(), action: `${change}_run`, run: id, by, selection: kind } as const;
    const run = await runs[change](act satisfies AuditEntry);
    logAudited(log, act);
    wake?.();
    return toView(run);
  }

  return {
    /** Begins a replay or discard. With `dry_run`, the operation only counts the calls. */
    async beginFailed(action: BulkAction, order: StoredOrder): Promise<FailedBulkView> {
      return toFailedBulkView(await begin(action, untilNow(order, clock()), !order.dry_run));
    },

    async beginAcknowledge(order: AcknowledgeOrder): Promise<AcknowledgeView> {
      return toAcknowledgeView(await begin("acknowledge", order));
    },

    /** Begins an audit of payments. Throws what `chooseTokens` throws. */
    async beginAudit(order: MatchOrder): Promise<AuditView> {
      chooseTokens(tokens, order);
      return toAuditView(await begin("audit", order as object));
    },

    /** Begins a refund check. Throws what `TokenSource.chains` throws. */
    async beginRefundCheck(): Promise<RefundCheckView> {
      tokens.chains();
      return toRefundCheckView(await begin("refund-check", {}));
    },

    /** Lists the bulk operations of a kind, newest first. */
    async list(kind: BulkKind, limit: number): Promise<BulkView[]> {
      const withProgress = KINDS[kind].isListedWhole;
      return (await runs.list(kind, { limit, withProgress })).map(toView);
    },

    /** Shows a bulk operation. Throws `run.unknown`, as `cancel` and `resume` also do. */
    async show(id: string): Promise<BulkView> {
      const run = await find(id);
      const view = toView(run);
      const hasOutcome = view.kind === "replay" && !view.dry_run && run.endedAt !== undefined;
      return hasOutcome ? { ...view, outcome: await readOutcome(run, view.done) } : view;
    },

    cancel: (id: string) => change(id, "cancel"),

    /** Continues a bulk operation that was cancelled or has stopped. Throws `run.not_resumable` and `run.too_many`. */
    resume: (id: string) => change(id, "resume"),
  };
}

/** Limit on the mismatches between transfers and payments that an audit of payments lists for each token. */
const LISTED_MAX = 200;

/**
 * Returns the functions that carry out bulk operations, by kind. If the process of an audit of payments or a refund
 * check dies, the next process starts the operation again from the beginning.
 */
export function bulkWorkers({
  listedMax = LISTED_MAX,
  ...deps
}: Parameters<typeof failedBulk>[0] &
  Parameters<typeof createCheckRefunds>[0] & { listedMax?: number }): Record<BulkKind, DoRun> {
  const findMatches = createFindMatches(deps.partitions, deps.tokens, listedMax);
  const auditing = createAuditing(deps);
  const checkRefunds = createCheckRefunds(deps);
  return {
    ...failedBulk(deps),
    acknowledge: acknowledgeBulk(deps),
    async audit({ run, signal, storeProgressSoon, storeProgress }) {
      const order = MatchOrder.parse(run.request);
      await auditing(order, async () => {
        const result = await findMatches(order, { signal, tell: storeProgressSoon });
        await storeProgress(result);
        return result;
      });
    },
    async "refund-check"({ run, signal, storeProgress }) {
      const by = run.resumedBy ?? run.by;
      await storeProgress(await checkRefunds({ by, selection: "by a refund check", run: run.id }, signal));
    },
  };
}

function toView(run: Run): BulkView {
  return KINDS[run.kind as BulkKind].toView(run);
}

function toAuditView(run: Run): AuditView {
  const order = MatchOrder.parse(run.request);
  const result = run.progress === undefined ? null : TransferMatches.parse(run.progress);
  return { ...toHead(run, matchSelection(order)), kind: "audit", order, result };
}

function toRefundCheckView(run: Run): RefundCheckView {
  const result = run.progress === undefined ? null : RefundCheck.parse(run.progress);
  return { ...toHead(run, ALL_PENDING), kind: "refund-check", result };
}
