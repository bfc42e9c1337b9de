import type { Payment } from "../../api/payments.ts";
import type { Tone } from "../../ui/notice.tsx";

type Words = { word: string; tone: Tone; meaning: string };

/**
 * Words for each state of a payment, and a sentence on what the state means for the money and the job. After the
 * settlement, a payment has the state of its call.
 */
const STATES: Readonly<Record<string, Words>> = {
  settling: {
    word: "settling",
    tone: "warn",
    meaning: "The outcome is not known yet. The gateways ask the chain until it is.",
  },
  review: {
    word: "in review",
    tone: "bad",
    meaning: "The evidence does not show whether the payment was made. An operator must decide.",
  },
  queued: {
    word: "paid, queued",
    tone: "accent",
    meaning: "The payment was made, and its call waits for the runner.",
  },
  failed: {
    word: "paid, call failed",
    tone: "bad",
    meaning: "The payment was made, but its call failed. Replay the call or refund the payment.",
  },
  injected: {
    word: "paid, injected",
    tone: "good",
    meaning: "The payment was made, and the runner has answered 2xx.",
  },
  discarded: {
    word: "paid, discarded",
    tone: "warn",
    meaning:
      "The payment was made, but an operator discarded its call or deleted its body. A refund may be due.",
  },
  refund_pending: {
    word: "refund exported",
    tone: "warn",
    meaning: "The refund is exported, but not yet on the chain.",
  },
  refunded: { word: "refunded", tone: "neutral", meaning: "The payment was refunded." },
  void: { word: "not paid", tone: "neutral", meaning: "The payment was not made and can no longer be made." },
};

export const DISPUTED = "disputed";
export const ACKNOWLEDGED = "acknowledged";

/**
 * Words for a payment that the chain contradicts. They are shown instead of the words for its state. They are no
 * states, but the state filter offers them as well.
 */
const DISPUTES: Readonly<Record<string, Words>> = {
  [DISPUTED]: {
    word: "disputed",
    tone: "bad",
    meaning: "The call was queued, but the chain does not show the payment. An operator must acknowledge it.",
  },
  [ACKNOWLEDGED]: {
    word: "dispute acknowledged",
    tone: "neutral",
    meaning: "The call was queued, but the chain does not show the payment. An operator has acknowledged it.",
  },
};

/** Choices of the state filter. */
export const STATES_AND_DISPUTES = Object.keys({ ...STATES, ...DISPUTES });

/** Returns the words for a payment: those of its state, or of its dispute if the chain does not show the payment. */
export function wordsOfPayment({ state, contradicted, disputed }: Payment): Words {
  if (!contradicted) return wordsOf(state);
  return wordsOf(disputed ? DISPUTED : ACKNOWLEDGED);
}

export function wordsOf(state: string): Words {
  return (
    STATES[state] ??
    DISPUTES[state] ?? {
      word: state.replaceAll("_", " "),
      tone: "neutral",
      meaning: "This release does not know this state.",
    }
  );
}
