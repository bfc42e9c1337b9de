import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { PaymentStateView } from "../../../shared/operator/payment-states.ts";
import type { PaymentDetail } from "../../../shared/operator/payment-view.ts";
import { toIso } from "../../../shared/time/iso.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine, plain } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type ShowOptions = Operated & { json?: boolean };

/** `postern payments show`: all that is known of one payment except its body. 1 if it is unknown. */
export function showPayment(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async ({ payments }) => {
    const payment = await payments.show(id);
    deps.print(options.json ? jsonLine(payment) : inWords(payment));
    return EXIT.ok;
  });
}

/** Says who decided, and why. */
function decisionText(decision: PaymentDetail["decided"]): string | undefined {
  return decision === null ? undefined : `by ${plain(decision.by)}: ${plain(decision.reason)}`;
}

const MEANING: Record<PaymentStateView, string> = {
  settling: "whether it is paid is not known yet",
  queued: "paid; its call is in the queue",
  failed: "paid; its call failed and waits for an operator (postern failed show)",
  injected: "paid; its call was given to the runner",
  discarded: "paid; an operator discarded its call, or dropped its body before it was paid",
  refund_pending:
    "paid; its refund is exported, and not seen on the chain yet (postern payments refund-check)",
  refunded: "paid, and paid back",
  void: "not paid, and it cannot be any more",
  review: "the evidence does not tell whether it is paid: decide with postern payments resolve",
};

function inWords(payment: PaymentDetail): string {
  const { call_id: id, state, terms, settlement, facilitator, dispatches } = payment;
  const meaning = MEANING[state as PaymentStateView] ?? "a later release knows what that means";
  return facts([
    ["call", id],
    ["state", `${state} since ${payment.changed_at}: ${meaning}`],
    [payment.disputed ? "DISPUTED" : "reason", payment.reason ?? undefined],
    ["decided", decisionText(payment.decided)],
    ["acknowledged", decisionText(payment.acknowledged)],
    ["dropped", decisionText(payment.dropped)],
    ["claimed", payment.claimed_at],
    ["sent to settle", `${times(dispatches)}, last ${payment.dispatched_at}, to ${facilitator}`],
    ["settled by", settlement ? `transaction ${settlement.transaction} (${saidBy(payment)})` : undefined],
    ...termRows(terms),
    ["identifier", terms.x402_version === 1 ? undefined : (payment.payment_identifier ?? undefined)],
    ["route", payment.route],
    [
      "body",
      `${terms.body_bytes} bytes, sha256 ${payment.body_sha256}${payment.body_kept ? "" : ", not kept"}`,
    ],
    ["since block", payment.since_block],
    ...refundRows(payment),
  ]);
}

function refundRows({ state, effect, refund, refunded, late_at: lateAt }: PaymentDetail) {
  const isOver = state === "failed" || state === "discarded" || refund !== null;
  const by = refunded && `transaction ${refunded.transaction} from ${refunded.from}, block ${refunded.block}`;
  const exported = refund && `export ${refund.export} of ${toIso(refund.at)}, at block ${refund.block}`;
  return [
    ["effect", isOver ? EFFECT[effect] : undefined],
    ["refund", exported ?? undefined],
    ["refunded by", by ?? undefined],
    ["ATTENTION", lateAt === null ? undefined : `${lateAt}: ${LATE}`],
  ] as const;
}

const EFFECT = {
  none: "none: each attempt was refused, or never reached the runner",
  unknown: "unknown: an attempt may have done the job",
} as const;

/** Of a call that the runner took after its refund was exported. */
export const LATE = "the runner said that it has done the job, after the refund was exported";

function termRows(terms: PaymentDetail["terms"]): [string, string][] {
  const { valid_after, valid_before } = terms;
  return [
    ["job", `${terms.job_index} of service ${terms.service_id}`],
    ["amount", `${terms.amount} (smallest units) of ${terms.symbol}, ${terms.asset} on ${terms.network}`],
    ["payer", terms.payer],
    ["paid to", terms.pay_to],
    ["nonce", terms.nonce],
    ["valid", `${secondsToIso(valid_after)} to ${secondsToIso(valid_before)}`],
    ["quote", terms.quote_digest],
    ["x402 version", String(terms.x402_version)],
  ];
}

function saidBy({ settlement, proven }: PaymentDetail): string {
  const proof = proven ? "shown by the chain" : "not yet shown by the chain";
  return settlement?.by === "operator" ? "said by an operator" : `said by the ${settlement?.by}, ${proof}`;
}

function times(count: number): string {
  return count === 1 ? "once" : `${count} times`;
}

/** Keeps seconds that are no date as they are: payers may sign any uint256. */
function secondsToIso(seconds: string): string {
  const ms = Number(seconds) * 1000;
  return ms <= 8.64e15 ? toIso(ms) : `${seconds} s`;
}
