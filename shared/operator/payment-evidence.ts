import { isDisputed } from "../payments/list.ts";
import type { Payment, PaymentState } from "../payments/payment.ts";
import { isRefundable } from "../payments/refunds.ts";
import { toIso } from "../time/iso.ts";

/** What a state says of the money and of the job. */
export const MEANINGS: Readonly<Record<PaymentState, string>> = {
  SETTLING: "whether it is paid is not known yet",
  QUEUED: "paid; its call is in the queue",
  FAILED: "paid; its call failed and waits for an operator",
  INJECTED: "paid; its call was given to the runner",
  DISCARDED: "paid; an operator discarded its call, or dropped its body before it was paid",
  REFUND_PENDING: "paid; its refund is exported, and not seen on the chain yet",
  REFUNDED: "paid, and paid back",
  VOID: "not paid, and it cannot be any more",
  REVIEW: "the evidence does not tell whether it is paid",
};

/** What an operator may do about a payment. */
export const PAYMENT_ACTIONS = [
  /** Have a gateway look at it now. */
  "reconcile",
  /** Say that it is paid, and by which transaction. */
  "settle",
  /** Say that it is not paid, and is not going to be. */
  "void",
  /** Say that he has seen what contradicts it. */
  "acknowledge",
  /** Delete its body although it may still be paid: no settle is sent any more. */
  "drop",
  /** Of its call: run it again, or end it. */
  "replay",
  "discard",
  /** Export its refund; or, once it is exported, look whether the chain shows it. */
  "refund",
  "refund-check",
  /** Take its exported refund back, because the runner has done the job. */
  "refund-withdraw",
] as const;
type PaymentAction = (typeof PAYMENT_ACTIONS)[number];

const ACTIONS: Readonly<Record<PaymentState, readonly PaymentAction[]>> = {
  SETTLING: ["reconcile", "drop"],
  QUEUED: ["reconcile"],
  FAILED: ["replay", "discard", "refund"],
  INJECTED: [],
  DISCARDED: ["refund"],
  REFUND_PENDING: ["refund-check"],
  REFUNDED: [],
  VOID: [],
  REVIEW: ["settle", "void", "drop"],
};

export function actionsFor(
  payment: Pick<Payment, "state" | "lateAt" | "reason" | "settlement" | "acknowledged" | "dropped">,
): PaymentAction[] {
  const isLate = payment.state === "REFUND_PENDING" && payment.lateAt !== undefined;
  const actions = isLate ? (["refund-withdraw"] as const) : (ACTIONS[payment.state] ?? []);
  return [
    ...(isDisputed(payment) ? (["acknowledge"] as const) : []),
    ...actions.filter((action) => action !== "drop" || payment.dropped === undefined),
  ];
}

/** What is known of whether it is paid, and of what its job did, one sentence each. */
export function evidenceOf(payment: Payment): string[] {
  const { state, reason, facilitator, dispatches, dispatchedAt, decided, acknowledged, dropped } = payment;
  const times = dispatches === 1 ? "once" : `${dispatches} times`;
  const why = isDisputed(payment) ? "Contradicted" : (WHY[state] ?? "It was in review");
  return [
    ...(reason === undefined ? [] : [`${why}: ${reason}.`]),
    `It was sent to ${facilitator} to be settled ${times}, the last time at ${toIso(dispatchedAt)}.`,
    ...ofChain(payment),
    ...ofSettlement(payment),
    ...ofJob(payment),
    ...ofRefund(payment),
    ...(dropped === undefined
      ? []
      : [
          `${dropped.by} dropped its body: ${dropped.reason}. No settle is sent any more, and it never runs.`,
        ]),
    ...(decided === undefined ? [] : [`${decided.by} decided: ${decided.reason}.`]),
    ...(acknowledged === undefined ? [] : [`${acknowledged.by} has seen it: ${acknowledged.reason}.`]),
  ];
}

const WHY: Partial<Record<PaymentState, string>> = { VOID: "Not paid", REVIEW: "In review" };

function ofChain({ sinceBlock, searched, settlement, terms }: Payment): string[] {
  if (sinceBlock === 0n) return ["No chain was asked: its token has no node."];
  const valid = `The authorization of ${terms.payer} ${untilText(terms.valid_before)}.`;
  if (settlement !== undefined) return [];
  if (searched === undefined) return [`It can be paid from block ${sinceBlock} on.`, valid];
  return [`No use of its authorization was found from block ${sinceBlock} to block ${searched}.`, valid];
}

/** Payers may sign any number, also one that is no time. */
function untilText(validBefore: string): string {
  const ms = Number(validBefore) * 1000;
  return ms <= 8.64e15 ? `ends at ${toIso(ms)}` : "never ends";
}

function ofSettlement({ settlement, proven }: Payment): string[] {
  if (settlement === undefined) return ["No transaction is known that has paid it."];
  const { transaction, by } = settlement;
  const shown = proven
    ? "the chain has shown that at the configured depth"
    : by === "operator"
      ? "he has answered for it"
      : "the chain has not shown that at the configured depth (yet)";
  return [`Transaction ${transaction} has paid it, says ${SAYS[by]}; ${shown}.`];
}

const SAYS = { facilitator: "the facilitator", chain: "the chain", operator: "an operator" } as const;

function ofJob(payment: Payment): string[] {
  if (!isRefundable(payment) && payment.state !== "REFUND_PENDING") return [];
  return [
    payment.effect === "none"
      ? "Its job has had no effect: each attempt was refused, or never reached the runner."
      : "Its job may have had an effect: the outcome of an attempt is unknown.",
  ];
}

function ofRefund({ refund, refunded, lateAt }: Payment): string[] {
  return [
    ...(refund === undefined
      ? []
      : [`Its refund is in export ${refund.export}, made at block ${refund.block}.`]),
    ...(refunded === undefined ? [] : [`It was paid back by transaction ${refunded.transaction}.`]),
    ...(lateAt === undefined ? [] : [`The runner took its call at ${toIso(lateAt)}, after the export.`]),
  ];
}
