import type { Protocol } from "./protocol.ts";

/** The protocol with one rule broken, and the invariant that must detect it. */
export type Variant = {
  readonly name: string;
  readonly breaks: string;
  /** Length of the shortest counter-example. */
  readonly steps: number;
  readonly rules: Partial<Protocol>;
  /** Undefined if the smallest bounds suffice. */
  readonly losesJobs?: boolean;
  readonly crashes?: number;
};

export const VARIANTS: readonly Variant[] = [
  {
    name: "no claim: settle is sent with nothing written down",
    breaks: "I1",
    steps: 8,
    rules: { claimsBeforeSettle: false },
  },
  { name: "the claim does not bind the body", breaks: "I6", steps: 12, rules: { bindsBody: false } },
  { name: "the claim overwrites another body", breaks: "I6", steps: 15, rules: { claimIsAtomic: false } },
  { name: "a time-out of settle means refused", breaks: "I3", steps: 6, rules: { timeoutIsUnknown: false } },
  { name: "success:false means refused", breaks: "I3", steps: 6, rules: { successFalseIsUnknown: false } },
  { name: "verify does not check the nonce", breaks: "I7", steps: 8, rules: { verifyChecksNonce: false } },
  {
    name: "a refusal by verify is answered without a second look at the journal",
    breaks: "I3",
    steps: 8,
    rules: { looksAgainBeforeRefusing: false },
  },
  {
    name: "the job is added, then settle is sent",
    breaks: "I5",
    steps: 7,
    rules: { settlesBeforeAdd: false },
  },
  {
    name: "random job ids",
    breaks: "I2",
    steps: 17,
    rules: { idsAreDeterministic: false },
    losesJobs: true,
    crashes: 2,
  },
  { name: "the runner forgets keys", breaks: "I2", steps: 11, rules: { runnerRemembersIds: false } },
  { name: "no reconciler", breaks: "I1", steps: 7, rules: { reconciles: false } },
  { name: "no reconciler, seen by the operator", breaks: "I8", steps: 6, rules: { reconciles: false } },
  { name: "authorizationState means paid", breaks: "I5", steps: 9, rules: { needsTransferAsProof: false } },
  {
    name: "logs are read from the claim on only",
    breaks: "I1",
    steps: 10,
    rules: { readsLogsBeforeClaim: false },
  },
  { name: "the head is read after the logs", breaks: "I1", steps: 10, rules: { readsHeadBeforeLogs: false } },
  { name: "expiry on the local clock", breaks: "I1", steps: 10, rules: { expiresByBlockTime: false } },
  {
    name: "expiry on the local clock, seen by the client",
    breaks: "I3",
    steps: 10,
    rules: { expiresByBlockTime: false },
  },
  { name: "open records expire", breaks: "I1", steps: 9, rules: { openRecordsNeverExpire: false } },
  // The search for missing jobs would later repair the effect of this order. A separate test covers that search.
  {
    name: "QUEUED is marked before the add, and taken at its word",
    breaks: "I1",
    steps: 9,
    rules: { addsAsItSettles: false, readdsMissingJobs: false },
  },
  {
    name: "the same, seen by a client that was told 202",
    breaks: "I4",
    steps: 11,
    rules: { addsAsItSettles: false, readdsMissingJobs: false },
  },
  {
    name: "a job lost from the queue is not looked for",
    breaks: "I4",
    steps: 10,
    rules: { readdsMissingJobs: false },
    losesJobs: true,
  },
];
