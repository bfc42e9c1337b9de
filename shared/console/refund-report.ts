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
 * A report on the payments for calls that were not done, for bookkeeping. It changes nothing. An export of refunds is another thing: it
 * commits to paying them (refunds.ts).
 */

type Told = { of: Case; why: Failure | undefined; decimals: number | undefined };

/** The columns by their names. The table stays readable for programs: columns are added, and never renamed or removed. */
const COLUMNS: Readonly<Record<string, (told: Told) => string | undefined>> = {
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

function whyText({ of: { payment }, why }: Told): string | undefined {
  const { dropped } = payment;
  if (dropped !== undefined) return `${dropped.by} dropped its body: ${dropped.reason}`;
  return why && `${why.code}: ${why.reason}`;
}

/** The report as CSV (RFC 4180), some lines at a time: first the header, then a line for each payment, however many. */
export function createRefundReport(partitions: Partitions, decimalsOf: DecimalsOf) {
  const each = partitions.map(createRefundCases);

  async function* casesIn(state: CaseState, signal: AbortSignal | undefined) {
    for (const [index, read] of each.all.entries()) yield* readIn(each, index, read(state, signal));
  }

  return async function* refundReport(signal?: AbortSignal): AsyncGenerator<string> {
    yield toLine(Object.keys(COLUMNS));
    // A call that moves on to the next state during the report would come twice. In another order it could be missed.
    const told = new Set<string>();
    for (const state of CASE_STATES) {
      for await (const { cases } of casesIn(state, signal)) {
        const fresh = cases.filter(({ payment }) => !told.has(payment.id));
        for (const { payment } of fresh) told.add(payment.id);
        const whys = await Promise.all(
          fresh.map(({ failure, payment: { id } }) => failure ?? lastFailure(partitions, id)),
        );
        yield fresh
          .map((of, i) => ({ of, why: whys[i], decimals: decimalsOf(of.payment.terms) }))
          .map((row) => toLine(Object.values(COLUMNS).map((cellOf) => cellOf(row) ?? "")))
          .join("");
      }
    }
    signal?.throwIfAborted();
  };
}

/** Why the call failed last: what its last failed attempt said, or why it failed for good without one. */
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

/** How a formula begins: at the beginning of a cell, or behind what some spreadsheets take for the end of one. */
const FORMULA = /(^|;)(?=\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20])/gu;

/**
 * A cell as RFC 4180 has it. Some texts are a runner's, and a spreadsheet would compute one that begins as a formula does: an apostrophe
 * before it prevents that. Control characters become spaces.
 */
function toCell(text: string): string {
  const inert = text.replace(/\p{Cc}+/gu, " ").replace(FORMULA, "$1'");
  return /[",]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
