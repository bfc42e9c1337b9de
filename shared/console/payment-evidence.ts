import { isContradicted } from "../payments/list.ts";
import type { Payment, PaymentState } from "../payments/payment.ts";
import { isRefundable } from "../payments/refunds.ts";
import { toIso } from "../platform/time/iso.ts";
import { signedTime } from "./view.ts";

/** The meaning of a payment's state, for the money and the job. */
const MEANINGS: Readonly<Record<PaymentState, string>> = {
  SETTLING: "the outcome is not known yet",
  QUEUED: "the payment was made, and its call waits for the runner",
  FAILED: "the payment was made, but its call failed; replay the call or refund the payment",
  INJECTED: "the payment was made, and its call was injected",
  DISCARDED: "the payment was made, but an operator discarded its call or dropped its body",
  REFUND_PENDING: "the refund is exported, but not yet on the chain",
  REFUNDED: "the payment was refunded",
  VOID: "the payment was not made and can no longer be made",
  REVIEW: "the evidence does not show whether the payment was made",
};

export function meaningOf(payment: Payment): string {
  return isContradicted(payment)
    ? "the call was queued, but the chain does not show the payment"
    : MEANINGS[payment.state];
}

/** Returns the evidence for whether the payment was made and whether its job had an effect, one sentence each. */
export function evidenceOf(payment: Payment): string[] {
  const { state, reason, facilitator, dispatches, dispatchedAt, decided, acknowledged, dropped } = payment;
  const why = isContradicted(payment) ? "Contradicted" : (WHY[state] ?? "It was in review");
  return [
    ...(reason === undefined ? [] : [sentence(`${why}: ${reason}`)]),
    `The facilitator (${facilitator}) was asked ${dispatches === 1 ? "once to settle it," : `${dispatches} times to settle it, last`} at ${toIso(dispatchedAt)}.`,
    ...chainSentences(payment),
    ...settlementSentences(payment),
    ...jobSentences(payment),
    ...refundSentences(payment),
    ...(dropped === undefined
      ? []
      : [
          `${sentence(`${dropped.by} dropped its body: ${dropped.reason}`)} It is no longer settled, and its call never runs.`,
        ]),
    ...(decided === undefined ? [] : [sentence(`${decided.by} decided: ${decided.reason}`)]),
    ...(acknowledged === undefined
      ? []
      : [sentence(`${acknowledged.by} acknowledged it: ${acknowledged.reason}`)]),
  ];
}

/** Ends a text with a full stop, unless it already ends as a sentence. */
function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

const WHY: Partial<Record<PaymentState, string>> = { VOID: "Not paid", REVIEW: "In review" };

function chainSentences({ sinceBlock, searched, settlement, terms }: Payment): string[] {
  if (sinceBlock === 0n) return ["The chain was not checked: the token has no node."];
  const expiry = signedTime(terms.valid_before);
  const valid = `The authorization of ${terms.payer} ${expiry === null ? "never expires" : `expires at ${expiry}`}.`;
  if (settlement !== undefined) return [];
  if (searched === undefined) return [`It can only have been paid in block ${sinceBlock} or later.`, valid];
  return [`Its authorization was not used in blocks ${sinceBlock} to ${searched}.`, valid];
}

function settlementSentences(payment: Payment): string[] {
  const { settlement, proven } = payment;
  if (settlement === undefined) return ["No transaction that paid it is known."];
  const { transaction, by } = settlement;
  const shown = proven
    ? "and the chain confirms it"
    : by === "operator"
      ? "on their own responsibility"
      : "which the chain has not confirmed at the configured depth yet";
  const contradicted = "but the chain does not show the payment";
  return [
    `${REPORTERS[by]} reported transaction ${transaction}, ${isContradicted(payment) ? contradicted : shown}.`,
  ];
}

const REPORTERS = {
  facilitator: "The facilitator",
  chain: "A search of the chain",
  operator: "An operator",
} as const;

function jobSentences(payment: Payment): string[] {
  if (!isRefundable(payment) && payment.state !== "REFUND_PENDING") return [];
  return [
    payment.effect === "none"
      ? "Its job had no effect: each attempt was refused or did not reach the runner."
      : "Its job may have had an effect: the outcome of an attempt is unknown.",
  ];
}

function refundSentences({ refund, refunded, lateAt }: Payment): string[] {
  return [
    ...(refund === undefined
      ? []
      : [`Its refund is in export ${refund.export}, made at block ${refund.block}.`]),
    ...(refunded === undefined ? [] : [`It was refunded by transaction ${refunded.transaction}.`]),
    ...(lateAt === undefined ? [] : [`Its call was injected at ${toIso(lateAt)}, after the export.`]),
  ];
}
