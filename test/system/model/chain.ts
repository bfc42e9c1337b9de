import { type Action, chance, step } from "./action.ts";
import { isPaid, isWatched, type State } from "./state.ts";

const isOpen = (s: State): boolean => s.nonce === "unused" && !s.past;
const canLand = (s: State): boolean => isOpen(s) && s.funds !== "drained";

/** Closes the account's state. Once the authorization is used or expired, its funds no longer matter. */
const closed = (s: State): State => ({ ...s, funds: "full" });

/**
 * Actions of the chain and of all that write to it: the facilitator, a third party with the signature, and the payer.
 */
export const chainActions: readonly Action[] = [
  chance("chain: the facilitator's transaction lands", {
    when: (s) => canLand(s) && s.dispatched,
    does: (s) => ({ ...closed(s), nonce: "paid" }),
  }),
  chance("chain: a third party front-runs the settle", {
    when: (s) => canLand(s) && s.sends > 0,
    does: (s) => ({ ...closed(s), nonce: "front-run" }),
  }),
  chance("chain: the payer cancels the authorization", {
    when: isOpen,
    does: (s) => ({ ...closed(s), nonce: "cancelled" }),
  }),
  chance("chain: the payer drains the account", {
    when: (s) => isOpen(s) && s.funds === "full",
    does: (s) => ({ ...s, funds: "drained" }),
  }),
  chance("chain: the payer tops the account up", {
    when: (s) => isOpen(s) && s.funds === "drained",
    does: (s) => ({ ...s, funds: "refilled" }),
  }),
  step("chain: the payment is deep enough", {
    when: (s) => isPaid(s) && !s.deep && isWatched(s),
    does: (s) => ({ ...s, deep: true }),
  }),
  step("chain: a finalized block is past validBefore", {
    when: (s) => !s.past && isWatched(s),
    does: (s) => ({ ...closed(s), past: true, deep: s.deep || isPaid(s) }),
  }),
];
