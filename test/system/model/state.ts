/** Body that the client sends with its payment header. The first body sent is called A. */
export type Body = "A" | "B";

/** State of the authorization on the chain. `cancelled` sets authorizationState too, but no money moved. */
export type Nonce = "unused" | "paid" | "front-run" | "cancelled" | "spent-earlier";

export type RecordState = "none" | "SETTLING" | "QUEUED" | "INJECTED" | "VOID";

/** State of a request, named after its last step. `noted` and `handled` occur only in wrong variants. */
type GatewayStep =
  | "idle"
  | "received"
  | "unknown"
  | "refused"
  | "verified"
  | "claimed"
  | "handled"
  | "settling"
  | "settled"
  | "noted"
  | "queued";

export type Gateway = { readonly at: GatewayStep; readonly body: Body };

/** Memory of a reconciler between two steps: what it read, which may be outdated. */
export type Reconciler =
  | "idle"
  | "saw-paid"
  | "saw-past"
  | "saw-no-logs"
  | "saw-unpaid"
  | "saw-undispatched"
  | "noted"
  | "saw-queued"
  | "saw-missing";

/** A job under its id. Deterministic ids are all 0. */
export type Job = { readonly id: number; readonly body: Body; readonly at: "waiting" | "active" };

/** A worker keeps the body in memory, even if the job is removed meanwhile. */
export type Worker = {
  readonly at: "idle" | "took" | "took-ended" | "posted";
  readonly id: number;
  readonly body: Body;
};

export const IDLE_WORKER: Worker = { at: "idle", id: 0, body: "A" };

/**
 * Everything that outlives a step: the chain, Redis, the runner, the memory of each process, and the client's answers.
 */
export type State = {
  readonly nonce: Nonce;
  /** Whether the payment has as many confirmations as a proof requires. */
  readonly deep: boolean;
  /** State of the account. The payer may drain it once and top it up once. */
  readonly funds: "full" | "drained" | "refilled";
  /** Whether a finalized block is past `validBefore`. A transaction that has not landed by then never will. */
  readonly past: boolean;
  /** Whether a settle was sent. From then on, the facilitator's transaction may land at any time or never. */
  readonly dispatched: boolean;

  readonly record: RecordState;
  readonly recordBody: Body;
  /** Used only by variants that search for evidence from the claim on. */
  readonly paidBeforeClaim: boolean;
  readonly jobs: readonly Job[];
  readonly nextId: number;

  readonly gateways: readonly Gateway[];
  readonly reconcilers: readonly Reconciler[];
  readonly worker: Worker;

  /** Ids that the runner remembers, and the bodies that it has run, in order. */
  readonly runnerIds: readonly number[];
  readonly effects: string;

  /** Bodies that were answered with 202. */
  readonly told202: string;
  /** Whether a 402 was answered after a dispatch while the client might still have paid. */
  readonly told402Late: boolean;

  readonly sends: number;
  readonly crashes: number;
};

const IDLE: Gateway = { at: "idle", body: "A" };

const FRESH: State = {
  nonce: "unused",
  deep: false,
  funds: "full",
  past: false,
  dispatched: false,
  record: "none",
  recordBody: "A",
  paidBeforeClaim: false,
  jobs: [],
  nextId: 0,
  gateways: [IDLE, IDLE],
  reconcilers: ["idle", "idle"],
  worker: IDLE_WORKER,
  runnerIds: [],
  effects: "",
  told202: "",
  told402Late: false,
  sends: 0,
  crashes: 0,
};

/** Initial states: a new authorization, and an old one whose job is done and whose record has expired. */
export const initialStates: readonly State[] = [FRESH, { ...FRESH, nonce: "spent-earlier", deep: true }];

/** Returns whether the payer's money reached `payTo` for this model's call. */
export const isPaid = (s: State): boolean => s.nonce === "paid" || s.nonce === "front-run";

/**
 * Returns whether the chain's logs prove the payment: AuthorizationUsed and its Transfer, with enough confirmations.
 */
export const hasEvidence = (s: State): boolean => s.deep && (isPaid(s) || s.nonce === "spent-earlier");

/**
 * Returns whether time and depth still matter. They no longer change for a record that is known to be paid, and are
 * left out of its key.
 */
export const isWatched = ({ record }: State): boolean =>
  record === "none" || record === "SETTLING" || record === "VOID";

export const withGateway = (s: State, i: number, gateway: Gateway): State => ({
  ...s,
  gateways: s.gateways.map((old, j) => (j === i ? gateway : old)),
});

export const withReconciler = (s: State, i: number, reconciler: Reconciler): State => ({
  ...s,
  reconcilers: s.reconcilers.map((old, j) => (j === i ? reconciler : old)),
});

/** Moves the record if it is in `from`, as the journal's compare-and-set does. Otherwise changes nothing. */
export const move = (s: State, from: readonly RecordState[], to: RecordState): State =>
  from.includes(s.record) ? { ...s, record: to } : s;

export const jobIsMissing = (s: State): boolean => s.jobs.length === 0;

const letters = new Map<string, number>();

/** Returns a short code for a word. The same word always has the same code. */
function letter(word: string): number {
  const known = letters.get(word);
  if (known !== undefined) return known;
  letters.set(word, letters.size + 1);
  return letters.size;
}

/** Limit on words. It keeps every code below 256, so that each field of a key takes one byte. */
const WORDS_MAX = 100;

const gatewayCode = ({ at, body }: Gateway): number =>
  at === "idle" ? 0 : letter(at) + (body === "A" ? 0 : WORDS_MAX);

const flags = (...bits: readonly boolean[]): number => bits.reduce((sum, bit) => sum * 2 + Number(bit), 0);

const inOrder = (codes: readonly number[]): readonly number[] =>
  codes.length === 2 && codes[0]! > codes[1]! ? [codes[1]!, codes[0]!] : codes;

/**
 * Encodes a state as text with a fixed place for each field. Two states that differ only in which replica does what
 * have the same text.
 */
export function encode(s: State): string {
  const [gatewayA, gatewayB] = inOrder(s.gateways.map(gatewayCode));
  const [reconcilerA, reconcilerB] = inOrder(s.reconcilers.map(letter));
  const fixed = String.fromCharCode(
    letter(s.nonce),
    letter(s.funds),
    flags(isWatched(s) && s.deep, isWatched(s) && s.past, s.dispatched, s.paidBeforeClaim, s.told402Late),
    letter(s.record),
    letter(s.recordBody),
    s.nextId,
    gatewayA!,
    gatewayB!,
    reconcilerA!,
    reconcilerB!,
    letter(s.worker.at),
    s.worker.id,
    letter(s.worker.body),
    letter(s.told202),
    letter(s.effects),
    s.sends,
    s.crashes,
  );
  if (s.jobs.length === 0 && s.runnerIds.length === 0) return fixed;
  return `${fixed}${s.runnerIds.join()}/${s.jobs.map(({ id, body, at }) => id + body + at).sort()}`;
}
