import { hasEvidence, isPaid, type State } from "./state.ts";

/**
 * An invariant returns true for a good state. Those with `atRest` are checked only in states without a possible fair
 * step.
 */
export type Invariant = {
  readonly id: string;
  readonly says: string;
  readonly atRest: boolean;
  readonly holds: (s: State) => boolean;
};

/** The gateway is responsible for the payment: it was recorded, or a settle was sent for it. */
const isOurs = (s: State): boolean => s.dispatched || s.record !== "none";

const isFinal = (s: State): boolean => s.record === "none" || s.record === "INJECTED" || s.record === "VOID";

export const INVARIANTS: readonly Invariant[] = [
  {
    id: "I1",
    says: "a payment we dispatched or recorded is injected in the end",
    atRest: true,
    holds: (s) => !(isPaid(s) && isOurs(s)) || s.effects !== "",
  },
  { id: "I2", says: "a call has at most one effect", atRest: false, holds: (s) => s.effects.length <= 1 },
  {
    id: "I3",
    says: "no 402 after a dispatch until it is proven that the client cannot be charged",
    atRest: false,
    holds: (s) => !s.told402Late,
  },
  {
    id: "I4",
    says: "what was answered 202 is injected in the end",
    atRest: true,
    holds: (s) => s.told202 === "" || s.effects !== "",
  },
  {
    id: "I5",
    says: "what is injected is paid",
    atRest: false,
    holds: (s) => s.effects === "" || isPaid(s) || hasEvidence(s),
  },
  {
    id: "I6",
    says: "a 202 for a body means the effect has that body",
    atRest: false,
    holds: (s) => s.effects === "" || [...s.told202].every((body) => s.effects.includes(body)),
  },
  {
    id: "I7",
    says: "a payment spent earlier buys no second job",
    atRest: false,
    holds: (s) => s.effects === "" || s.nonce !== "spent-earlier",
  },
  {
    id: "I8",
    says: "no record stays open for ever and no job is left over",
    atRest: true,
    holds: (s) => isFinal(s) && s.jobs.length === 0,
  },
];
