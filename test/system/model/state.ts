/** What the client's payment header is sent with; the first body sent is called A. */
export type Body = "A" | "B";

/** What the chain knows of the one authorization. `cancelled` sets authorizationState too, but no money moved. */
export type Nonce = "unused" | "paid" | "front-run" | "cancelled" | "spent-earlier";

export type RecordState = "none" | "SETTLING" | "QUEUED" | "INJECTED" | "VOID";

/** Where a request stands; the names say what has been done last. `noted` and `handled` occur in wrong variants only. */
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

/** What a reconciler holds in memory between two steps: what it saw, which may be stale by now. */
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

/** A job under its id; ids are all 0 when they are deterministic. */
export type Job = { readonly id: number; readonly body: Body; readonly at: "waiting" | "active" };

/** It has the body in memory, even if the job is gone meanwhile. */
export type Worker = {
  readonly at: "idle" | "took" | "took-ended" | "posted";
  readonly id: number;
  readonly body: Body;
};

export const IDLE_WORKER: Worker = { at: "idle", id: 0, body: "A" };

/** Everything that outlives a step: the chain, Redis, the runner, the memory of each process, and what the client was told. */
export type State = {
  readonly nonce: Nonce;
  /** The payment is as deep in the chain as a proof asks for. */
  readonly deep: boolean;
  /** A payer may drain the account once and top it up once. */
  readonly funds: "full" | "drained" | "refilled";
  /** A finalized block is past `validBefore`: what has not landed never will. */
  readonly past: boolean;
  /** A settle was sent. The facilitator's transaction may land from then on: now, late or never. */
  readonly dispatched: boolean;

  readonly record: RecordState;
  readonly recordBody: Body;
  /** Kept only where the evidence is looked for from the claim on. */
  readonly paidBeforeClaim: boolean;
  readonly jobs: readonly Job[];
  readonly nextId: number;

  readonly gateways: readonly Gateway[];
  readonly reconcilers: readonly Reconciler[];
  readonly worker: Worker;

  /** The ids the runner remembers, and the bodies it has run, in order. */
  readonly runnerIds: readonly number[];
  readonly effects: string;

  /** Bodies that were answered 202. */
  readonly told202: string;
  /** A 402 was answered after a dispatch while it was not yet impossible that the client pays. */
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

/** A new authorization, and an old one whose job is done and whose record has expired. */
export const initialStates: readonly State[] = [FRESH, { ...FRESH, nonce: "spent-earlier", deep: true }];

/** The payer's money reached `payTo` for the call this model is about. */
export const isPaid = (s: State): boolean => s.nonce === "paid" || s.nonce === "front-run";

/** What a strict reader of the logs finds: AuthorizationUsed with the Transfer beside it, deep enough. */
export const hasEvidence = (s: State): boolean => s.deep && (isPaid(s) || s.nonce === "spent-earlier");

/** A record that is known to be paid asks for time and depth no more: they stand still and are left out of the key. */
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

/** The journal's compare-and-set: moves the record if it is in `from`, changes nothing otherwise. */
export const move = (s: State, from: readonly RecordState[], to: RecordState): State =>
  from.includes(s.record) ? { ...s, record: to } : s;

export const jobIsMissing = (s: State): boolean => s.jobs.length === 0;

const letters = new Map<string, number>();

/** A short code for a word; the same word always has the same one. */
function letter(word: string): number {
  const known = letters.get(word);
  if (known !== undefined) return known;
  letters.set(word, letters.size + 1);
  return letters.size;
}

/** More than there are words; every code stays below 256, so that a key takes one byte for each field. */
const WORDS_MAX = 100;

const gatewayCode = ({ at, body }: Gateway): number =>
  at === "idle" ? 0 : letter(at) + (body === "A" ? 0 : WORDS_MAX);

const flags = (...bits: readonly boolean[]): number => bits.reduce((sum, bit) => sum * 2 + Number(bit), 0);

const inOrder = (codes: readonly number[]): readonly number[] =>
  codes.length === 2 && codes[0]! > codes[1]! ? [codes[1]!, codes[0]!] : codes;

/** Two states that differ only in which replica does what are one state; every field has its own place in the string. */
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
