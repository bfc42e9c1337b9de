import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import {
  createPaymentList,
  isDisputed,
  type PaymentFilter,
  type PaymentList,
  type PaymentSummary,
} from "../../../shared/payments/list.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain, toIso } from "../text.ts";
import { withRedis } from "../with-redis.ts";

/** A limit of 0 is none. */
export type ListOptions = PaymentFilter & { limit: number; configDir: string; json?: boolean };

/** `postern payments list`: the newest payments first. */
export function listPayments(deps: ProgramDeps, options: ListOptions): Promise<number> {
  return withRedis(deps, options, async ({ redis }) => {
    const printed = await printPayments(deps, options, createPaymentList(redis));
    if (options.json) deps.printError(countText(printed));
    else deps.print(countText(printed));
    return EXIT.ok;
  });
}

type Printed = { listed: number; more: boolean };

async function printPayments(
  { print }: ProgramDeps,
  { json, limit, ...filter }: ListOptions,
  payments: PaymentList,
): Promise<Printed> {
  const toLine = (payment: PaymentSummary) =>
    json ? `${JSON.stringify(toJson(payment))}\n` : toRow(payment);
  if (!json) print(row(["CALL", "CLAIMED", "STATE", "PAYER", "AMOUNT", "JOB", "REMARK"]));
  let listed = 0;
  for await (const payment of payments.matching(filter)) {
    if (listed === limit && limit !== 0) return { listed, more: true };
    print(toLine(payment));
    listed += 1;
  }
  return { listed, more: false };
}

function countText({ listed, more }: Printed): string {
  const rest = more ? ", and there are more (--limit 0 lists all)" : "";
  return `${listed} ${listed === 1 ? "payment" : "payments"}${rest}\n`;
}

const WIDTHS = [34, 20, 9, 42, 24, 8];

function toRow(payment: PaymentSummary): string {
  const { id, state, claimedAt, terms, reason } = payment;
  const claimed = toIso(claimedAt).replace(/\.\d+Z$/, "Z");
  const amount = `${terms.amount} ${terms.symbol} units`;
  const remark = `${isDisputed(payment) ? "DISPUTED: " : ""}${reason ?? ""}`;
  const job = `${terms.service_id}/${terms.job_index}`;
  return row([id, claimed, state.toLowerCase(), terms.payer, amount, job, remark]);
}

function row(cells: readonly string[]): string {
  const line = cells.map((text, i) => plain(text).padEnd(WIDTHS[i] ?? 0)).join("  ");
  return `${line.trimEnd()}\n`;
}

/** A payment for scripts. Amounts are in the token's smallest unit. */
export function toJson(payment: PaymentSummary) {
  const { id, state, claimedAt, changedAt, terms, settlement, proven, dispatches, reason, sinceBlock } =
    payment;
  return {
    call_id: id,
    state: state.toLowerCase(),
    claimed_at: toIso(claimedAt),
    changed_at: toIso(changedAt),
    terms,
    settlement: settlement ?? null,
    proven,
    disputed: isDisputed(payment),
    dispatches,
    since_block: String(sinceBlock),
    reason: reason ?? null,
  };
}
