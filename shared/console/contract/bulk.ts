import { z } from "zod";
import { AcknowledgeOrder, AcknowledgeView } from "../acknowledge-bulk.ts";
import { AuditView, BULK_KINDS, BulkView, RefundCheckView } from "../bulk-operations.ts";
import { BulkOrder, FailedBulkView } from "../failed-bulk.ts";
import { MatchOrder } from "../transfer-matches.ts";
import { reason } from "../view.ts";
import type { Table } from "./operation.ts";
import { page, runParams } from "./parameters.ts";

const PATH = "/api/v1/bulk";
const begun = {
  role: "operator",
  method: "POST",
  status: 202,
  location: `${PATH}/{id}`,
  answerText: "The bulk operation was started. Location has its URL.",
} as const;

const { force, ...common } = BulkOrder.shape;

/**
 * Checks that a request selects in exactly one way: by a filter, by ids, or with `all`. If a client forgets the
 * filter, the request must not select all calls.
 */
function requireOneSelection(
  { all, call_ids, filter }: Pick<BulkOrder | AcknowledgeOrder, "all" | "call_ids" | "filter">,
  context: z.RefinementCtx,
): void {
  const isFiltered = Object.values(filter).some((each) => each !== undefined);
  const given = Object.entries({ filter: isFiltered, call_ids: call_ids !== undefined, all: all === true });
  const [first, second] = given.flatMap(([name, isGiven]) => (isGiven ? [name] : []));
  const refuse = (name: string, message: string) =>
    context.addIssue({ code: "custom", path: [name], message });
  if (first === undefined) refuse("filter", "is empty: set a filter, call_ids, or all to select everything");
  else if (second !== undefined)
    refuse(second, `must not be set together with ${first}: set only one of filter, call_ids and all`);
}

/** The API of bulk operations. A bulk operation continues after the request that began it has been answered. */
export const BULK = {
  beginReplay: {
    ...begun,
    path: "/api/v1/failed/replays",
    summary: "Start a bulk replay of failed calls, by filter or by id; with dry_run, only count them",
    body: z.strictObject({ ...common, force, reason }).superRefine(requireOneSelection),
    answer: FailedBulkView,
    audit: ["begin_replay", "replay"],
    problems: ["run.too_many"],
  },
  beginDiscard: {
    ...begun,
    path: "/api/v1/failed/discards",
    summary: "Start a bulk discard of failed calls, by filter or by id; with dry_run, only count them",
    body: z.strictObject({ ...common, reason }).superRefine(requireOneSelection),
    answer: FailedBulkView,
    audit: ["begin_discard", "discard"],
    problems: ["run.too_many"],
  },
  beginAcknowledge: {
    ...begun,
    path: "/api/v1/payments/acknowledgements",
    summary: "Start to acknowledge disputed payments, by filter or by id",
    body: AcknowledgeOrder.superRefine(requireOneSelection),
    answer: AcknowledgeView,
    audit: ["begin_acknowledge", "acknowledge"],
    problems: ["run.too_many"],
  },
  beginAudit: {
    ...begun,
    path: "/api/v1/payments/audits",
    summary: "Start an audit, which matches the transfers on the chain with the payments",
    body: MatchOrder,
    answer: AuditView,
    audit: ["begin_audit"],
    problems: ["token.unconfigured", "start.config_invalid", "run.too_many"],
  },
  beginRefundCheck: {
    ...begun,
    path: "/api/v1/payments/refund-checks",
    summary: "Start a refund check, which finds paid refunds on the chain and closes them",
    body: z.strictObject({}),
    answer: RefundCheckView,
    audit: ["begin_refund_check", "close_refund"],
    problems: ["token.unconfigured", "start.config_invalid", "run.too_many"],
  },
  listBulk: {
    method: "GET",
    path: PATH,
    role: "viewer",
    summary: "List bulk operations of a kind, newest first; audits and refund checks without their findings",
    query: z.strictObject({ kind: z.enum(BULK_KINDS), limit: page.limit }),
    answer: z.object({ runs: z.array(BulkView) }),
    answerText: "At most the 200 newest bulk operations. An ended one is listed for 7 days.",
  },
  getBulk: {
    method: "GET",
    path: `${PATH}/{run_id}`,
    role: "viewer",
    summary: "Show a bulk operation, with its progress and findings",
    params: runParams,
    answer: BulkView,
    answerText: "The bulk operation.",
    problems: ["run.unknown"],
  },
  cancelBulk: {
    method: "DELETE",
    path: `${PATH}/{run_id}`,
    role: "operator",
    summary: "Cancel a bulk operation; steps in flight are finished, and finished steps stay as they are",
    params: runParams,
    answer: BulkView,
    answerText: "The bulk operation, which is being cancelled or had already ended.",
    audit: ["cancel_run"],
    problems: ["run.unknown"],
  },
  resumeBulk: {
    method: "POST",
    path: `${PATH}/{run_id}/resume`,
    role: "operator",
    summary: "Resume a bulk operation that was cancelled or has stopped",
    params: runParams,
    answer: BulkView,
    status: 202,
    answerText: "The bulk operation continues.",
    audit: ["resume_run", "replay", "discard", "acknowledge", "close_refund"],
    problems: ["run.unknown", "run.not_resumable", "run.too_many"],
  },
} satisfies Table;
