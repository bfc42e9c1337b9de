import type { Tone } from "../../ui/notice.tsx";

type Words = { word: string; tone: Tone; meaning: string };

/** What each state of a payment says of the money and of the job. */
const STATES: Readonly<Record<string, Words>> = {
  settling: {
    word: "settling",
    tone: "warn",
    meaning: "Whether it is paid is not known yet. The gateways ask the chain until it is.",
  },
  review: {
    word: "in review",
    tone: "bad",
    meaning: "The evidence does not tell whether it is paid. Somebody has to decide.",
  },
  queued: { word: "paid, queued", tone: "accent", meaning: "It is paid, and its call waits for the runner." },
  failed: {
    word: "paid, call failed",
    tone: "bad",
    meaning: "It is paid, and its call failed. Replay the call, or pay the money back.",
  },
  injected: { word: "paid, delivered", tone: "good", meaning: "It is paid, and the runner has its call." },
  discarded: {
    word: "paid, discarded",
    tone: "warn",
    meaning:
      "It is paid, and an operator has discarded its call or dropped its body. The money may be due back.",
  },
  refund_pending: {
    word: "refund exported",
    tone: "warn",
    meaning: "Its refund is exported, and the chain has not shown it yet.",
  },
  refunded: { word: "paid back", tone: "neutral", meaning: "It was paid, and paid back." },
  void: { word: "not paid", tone: "neutral", meaning: "It was not paid, and it cannot be any more." },
};

export const PAYMENT_STATES = Object.keys(STATES);

/** No state, but what may be true of a payment that counts as paid, in place of its state where one is asked for or shown. */
export const DISPUTED = "disputed";

export function wordsOf(state: string): Words {
  if (state === DISPUTED)
    return {
      word: "disputed",
      tone: "bad",
      meaning: "It counts as paid, and the chain contradicts that. Somebody has to see it.",
    };
  return (
    STATES[state] ?? {
      word: state.replaceAll("_", " "),
      tone: "neutral",
      meaning: "A later release knows this state.",
    }
  );
}
