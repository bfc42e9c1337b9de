import { obstacleOf } from "../payments/refunds.ts";
import { scaled, toDecimal } from "../platform/text/decimal.ts";
import { toIso } from "../platform/time/iso.ts";
import { toCallLog } from "../queue/call-log.ts";
import { toFailure } from "../queue/failed.ts";
import { readIn } from "../redis/merge.ts";
import type { Partitions } from "../redis/partition.ts";
import { CASE_STATES, type Case, type CaseState, createRefundCases, type Failure } from "./refund-cases.ts";
import type { DecimalsOf } from "./tokens.ts";

/*
 * A report on the payments for calls that were not done, for bookkeeping. It changes nothing, unlike an export of
 * refunds, which commits the operator to paying them (refunds.ts).
 */

type ReportRow = { of: Case; why: Failure | undefined; decimals: number | undefined };

/** The columns by name. Programs read this table: columns are added, but never renamed or removed. */
const COLUMNS: Readonly<Record<string, (told: ReportRow) => string | undefined>> = {
  call_id: ({ of }) => of.payment.id,
  state: ({ of }) => of.payment.state.toLowerCase(),
  network: ({ of }) => of.payment.terms.network,
  token: ({ of }) => of.payment.terms.symbol,
  asset: ({ of }) => of.payment.terms.asset,
  amount: ({ of, decimals }) =>
    isReadable(of) && decimals !== undefined
      ? toDecimal(scaled(BigInt(of.payment.terms.amount), -decimals))
      : undefined,
  amount_units: ({ of }) => (isReadable(of) ? of.payment.terms.amount : undefined),
  payer: ({ of }) => of.payment.terms.payer,
  paid_to: ({ of }) => of.payment.terms.pay_to,
  transaction: ({ of }) => of.payment.settlement?.transaction,
  claimed_at: ({ of }) => toIso(of.payment.claimedAt),
  state_since: ({ of }) => toIso(of.payment.changedAt),
  why: whyText,
  job_ran: ({ of: { payment } }) =>
    payment.lateAt === undefined ? JOB_RAN[payment.effect] : "yes, after the export",
  payment: ({ of }) => paymentText(of.payment),
  export_id: ({ of }) => of.payment.refund?.export,
};

const JOB_RAN = { none: "no", unknown: "perhaps" } as const;

function paymentText(payment: Case["payment"]): string {
  const obstacle = obstacleOf(payment);
  return obstacle === undefined || obstacle === "effect unknown" ? "confirmed" : obstacle;
}

function isReadable({ payment }: Case): boolean {
  return obstacleOf(payment) !== "unreadable";
}

function whyText({ of: { payment }, why }: ReportRow): string | undefined {
  const { dropped } = payment;
  if (dropped !== undefined) return `${dropped.by} dropped its body: ${dropped.reason}`;
  return why && `${why.code}: ${why.reason}`;
}

/** Writes the report as CSV (RFC 4180), some lines at a time: first the header, then a line for each payment. */
export function createRefundReport(partitions: Partitions, decimalsOf: DecimalsOf) {
  const each = partitions.map(createRefundCases);

  async function* casesIn(state: CaseState, signal: AbortSignal | undefined) {
    for (const [index, read] of each.all.entries()) yield* readIn(each, index, read(state, signal));
  }

  return async function* refundReport(signal?: AbortSignal): AsyncGenerator<string> {
    yield toLine(Object.keys(COLUMNS));
    // A payment passes the states in this order, so the report does not miss a payment whose state changes during
    // the report. `told` keeps such a payment from being listed twice.
    const told = new Set<string>();
    for (const state of CASE_STATES) {
      for await (const { cases } of casesIn(state, signal)) {
        const fresh = cases.filter(({ payment }) => !told.has(payment.id));
        for (const { payment } of fresh) told.add(payment.id);
        const failures = await Promise.all(
          fresh.map(({ failure, payment: { id } }) => failure ?? lastFailure(partitions, id)),
        );
        yield fresh
          .map((of, i) => ({ of, why: failures[i], decimals: decimalsOf(of.payment.terms) }))
          .map((row) => toLine(Object.values(COLUMNS).map((columnValue) => columnValue(row) ?? "")))
          .join("");
      }
    }
    signal?.throwIfAborted();
  };
}

/**
 * Returns the reason of the call's last failure: the message of its last failed attempt, or why it failed without an
 * attempt.
 */
async function lastFailure(partitions: Partitions, id: string): Promise<Failure | undefined> {
  const { redis, keys } = partitions.of(id);
  const { entries } = toCallLog(await redis.lrange(keys.attempts(id), 0, -1));
  const last = entries.findLast(({ kind }) => kind === "attempt" || kind === "failed");
  if (last?.kind === "attempt") return last;
  return last?.kind === "failed" ? toFailure(last.reason) : undefined;
}

function toLine(cells: readonly string[]): string {
  return `${cells.map(toCell).join(",")}\r\n`;
}

/**
 * Matches the place where a formula starts. It may be at the start of a cell, or after a semicolon, which some
 * spreadsheets treat as the end of a cell.
 */
const FORMULA = /(^|;)(?=\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20])/gu;

/**
 * Writes a cell as RFC 4180 requires. Some texts come from a runner, and a spreadsheet would compute a text that
 * begins like a formula. An apostrophe before the text prevents that. Control characters become spaces.
 */
function toCell(text: string): string {
  const inert = text.replace(/\p{Cc}+/gu, " ").replace(FORMULA, "$1'");
  return /[",]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
