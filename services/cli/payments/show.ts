import type { PaymentDetail } from "../../../shared/console/payment-view.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, facts, jsonLine, plain, withAge } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { amountOf } from "./list.ts";

export type ShowOptions = OperationTarget & { json?: boolean };

/** `postern payments show`: prints all data of one payment except its body. Exit code 1 if the payment is unknown. */
export function showPayment(deps: ProgramDeps, named: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    const payment = await operations.getPayment({ call_id: id });
    deps.print(options.json ? jsonLine(payment) : inWords(payment));
    return EXIT.ok;
  });
}

/** Says which operator decided about the payment, and why. */
function decisionText(decision: PaymentDetail["decided"]): string | undefined {
  return decision === null ? undefined : `by ${plain(decision.by)}: ${plain(decision.reason)}`;
}

/** The command with which an operator can continue, by the payment's state. */
const NEXT: Readonly<Record<string, string>> = {
  failed: "postern failed show",
  refund_pending: "postern refunds check",
  review: "postern payments resolve",
};

function inWords(payment: PaymentDetail): string {
  const { call_id: id, state, terms, facilitator, dispatches } = payment;
  const next = payment.disputed ? NEXT["review"] : NEXT[state];
  const meaning = `${payment.meaning}${next === undefined ? "" : ` (${next})`}`;
  return facts([
    ["call", id],
    ["state", `${state} since ${withAge(payment.changed_at)}: ${meaning}`],
    [payment.disputed ? "DISPUTED" : "reason", payment.reason ?? undefined],
    ["decided", decisionText(payment.decided)],
    ["acknowledged", decisionText(payment.acknowledged)],
    ["dropped", decisionText(payment.dropped)],
    ["claimed", withAge(payment.claimed_at)],
    ["settle requests", `${dispatches}, last at ${withAge(payment.dispatched_at)}, to ${facilitator}`],
    settlementRow(payment),
    ...termRows(payment),
    ["payment identifier", terms.x402_version === 1 ? undefined : (payment.payment_identifier ?? undefined)],
    ["route", payment.route],
    [
      "body",
      `${counted(terms.body_bytes, "byte")}, sha256 ${payment.body_sha256}${payment.body_kept ? "" : ", no longer kept"}`,
    ],
    ["last unpaid", payment.since_block === "0" ? undefined : lastUnpaid(payment)],
    ...refundRows(payment),
  ]);
}

/**
 * Makes the row about the transaction that settled the payment. It says who reported the transaction, and whether the
 * chain confirms it. If the chain contradicts it, the label is "not shown".
 */
function settlementRow({ settlement, proven, contradicted }: PaymentDetail) {
  if (settlement === null) return ["settled by", undefined] as const;
  const { transaction, by } = settlement;
  const words = saidBy(by, proven, contradicted ? "the chain does not show the payment" : undefined);
  return [contradicted ? "not shown" : "settled by", `transaction ${transaction} (${words})`] as const;
}

/** Names the last block at which the chain showed the payment as not made. */
function lastUnpaid({ since_block: block, settlement, proven }: PaymentDetail): string {
  return `block ${block}${settlement && proven ? " (paid in a later block)" : ""}`;
}

function refundRows({ state, effect, refund, refunded, late_at: lateAt }: PaymentDetail) {
  const isOver = state === "failed" || state === "discarded" || refund !== null;
  const by = refunded && `transaction ${refunded.transaction} from ${refunded.from}, block ${refunded.block}`;
  const exported = refund && `export ${refund.export} of ${refund.at}, at block ${refund.block}`;
  return [
    ["effect", isOver ? EFFECT[effect] : undefined],
    ["refund", exported ?? undefined],
    ["refunded by", by ?? undefined],
    ["ATTENTION", lateAt === null ? undefined : `${lateAt}: ${LATE}`],
  ] as const;
}

const EFFECT = {
  none: "none: each attempt was refused or did not reach the runner",
  unknown: "unknown: the outcome of an attempt is unknown, so the job may have run",
} as const;

/** Describes a call that the runner accepted after its refund was exported. */
export const LATE = "the runner did the job after the refund was exported";

function termRows({ terms, decimals }: PaymentDetail): [string, string][] {
  const { valid_after, valid_before } = terms;
  return [
    ["job", `${terms.service_id}/${terms.job_id}`],
    ["amount", `${amountOf(terms, decimals)} (${terms.asset}) on ${terms.network}`],
    ["payer", terms.payer],
    ["recipient", terms.pay_to],
    ["nonce", terms.nonce],
    [
      "valid",
      `from ${valid_after ?? "never"}, ${valid_before === null ? "without end" : `to ${valid_before}`}`,
    ],
    ["quote digest", terms.quote_digest],
    ["x402 version", String(terms.x402_version)],
  ];
}

/** Says who reported the transaction, and whether the chain has confirmed or contradicts it. */
export function saidBy(by: string | undefined, proven = false, contradiction?: string): string {
  if (contradiction !== undefined) return `reported by the ${by}; ${contradiction}`;
  const proof = proven ? "confirmed on chain" : "not yet confirmed at the configured depth";
  return by === "operator" ? "confirmed by an operator" : `reported by the ${by}, ${proof}`;
}
