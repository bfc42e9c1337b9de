import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import { isDisputed } from "../../../shared/payments/list.ts";
import type { Decision, Payment, PaymentState, PaymentTerms } from "../../../shared/payments/payment.ts";
import { toIso } from "../../../shared/time/iso.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { toJson } from "./list.ts";

export type ShowOptions = { configDir: string; json?: boolean };

/** `postern payments show`: all that is known of one payment except its body. 1 if it is unknown. */
export function showPayment(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition }) => {
    const payment = await createPaymentJournal(partition).find(id);
    if (payment === undefined) throw new Error(unknown(id));
    deps.print(options.json ? jsonLine(allOf(payment)) : inWords(payment));
    return EXIT.ok;
  });
}

/** Says that an id is not in the journal. */
export function unknown(id: string): string {
  return `${id} is unknown: there was no such payment, or it is older than the journal remembers (30 days from its call's end)`;
}

/** Says who decided, and why. */
export function decisionText({ by, reason }: Decision): string {
  return `by ${plain(by)}: ${plain(reason)}`;
}

function allOf(payment: Payment) {
  const { decided, facilitator, dispatchedAt, identifier, bodySha256, route, call } = payment;
  return {
    ...toJson(payment),
    decided: decided ?? null,
    acknowledged: payment.acknowledged ?? null,
    facilitator,
    dispatched_at: toIso(dispatchedAt),
    payment_identifier: identifier ?? null,
    route,
    body_sha256: bodySha256,
    body_kept: call !== undefined,
    content_type: call?.content_type ?? null,
  };
}

const MEANING: Record<PaymentState, string> = {
  SETTLING: "whether it is paid is not known yet",
  QUEUED: "paid; its call is in the queue",
  FAILED: "paid; its call failed and waits for an operator (postern failed show)",
  INJECTED: "paid; its call was given to the runner",
  DISCARDED: "paid; its call was discarded by an operator",
  REFUND_PENDING:
    "paid; its refund is exported, and not seen on the chain yet (postern payments refund-check)",
  REFUNDED: "paid, and paid back",
  VOID: "not paid, and it cannot be any more",
  REVIEW: "the evidence does not tell whether it is paid: decide with postern payments resolve",
};

function inWords(payment: Payment): string {
  const { id, state, claimedAt, changedAt, settlement, facilitator, dispatches, dispatchedAt } = payment;
  const { terms, decided } = payment;
  return facts([
    ["call", id],
    ["state", `${state.toLowerCase()} since ${toIso(changedAt)}: ${MEANING[state]}`],
    [isDisputed(payment) ? "DISPUTED" : "reason", payment.reason],
    ["decided", decided && decisionText(decided)],
    ["acknowledged", payment.acknowledged && decisionText(payment.acknowledged)],
    ["claimed", toIso(claimedAt)],
    ["sent to settle", `${times(dispatches)}, last ${toIso(dispatchedAt)}, to ${facilitator}`],
    ["settled by", settlement && `transaction ${settlement.transaction} (${saidBy(payment)})`],
    ...termRows(terms),
    ["identifier", payment.terms.x402_version === 1 ? undefined : payment.identifier],
    ["route", payment.route],
    ["body", `${terms.body_bytes} bytes, sha256 ${payment.bodySha256}${payment.call ? "" : ", not kept"}`],
    ["since block", String(payment.sinceBlock)],
    ...refundRows(payment),
  ]);
}

function refundRows({ state, effect, refund, refunded, lateAt }: Payment): [string, string | undefined][] {
  const isOver = state === "FAILED" || state === "DISCARDED" || refund !== undefined;
  const by = refunded && `transaction ${refunded.transaction} from ${refunded.from}, block ${refunded.block}`;
  return [
    ["effect", isOver ? EFFECT[effect] : undefined],
    ["refund", refund && `export ${refund.export} of ${toIso(refund.at)}, at block ${refund.block}`],
    ["refunded by", by],
    ["ATTENTION", lateAt === undefined ? undefined : `${toIso(lateAt)}: ${LATE}`],
  ];
}

const EFFECT = {
  none: "none: each attempt was refused, or never reached the runner",
  unknown: "unknown: an attempt may have done the job",
} as const;

/** Of a call that the runner took after its refund was exported. */
export const LATE = "the runner said that it has done the job, after the refund was exported";

function termRows(terms: PaymentTerms): [string, string][] {
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

function saidBy({ settlement, proven }: Payment): string {
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
