/** Rules of the paid path. All hold in the real protocol. Each wrong variant breaks one of them. */
export type Protocol = {
  readonly claimsBeforeSettle: boolean;
  readonly claimIsAtomic: boolean;
  readonly bindsBody: boolean;
  readonly settlesBeforeAdd: boolean;
  readonly addsAsItSettles: boolean;
  readonly idsAreDeterministic: boolean;
  readonly timeoutIsUnknown: boolean;
  readonly successFalseIsUnknown: boolean;
  readonly verifyChecksNonce: boolean;
  readonly looksAgainBeforeRefusing: boolean;
  readonly reconciles: boolean;
  readonly readdsMissingJobs: boolean;
  readonly needsTransferAsProof: boolean;
  readonly readsLogsBeforeClaim: boolean;
  readonly readsHeadBeforeLogs: boolean;
  readonly expiresByBlockTime: boolean;
  readonly openRecordsNeverExpire: boolean;
  readonly runnerRemembersIds: boolean;
};

export const PROTOCOL: Protocol = {
  claimsBeforeSettle: true,
  claimIsAtomic: true,
  bindsBody: true,
  settlesBeforeAdd: true,
  addsAsItSettles: true,
  idsAreDeterministic: true,
  timeoutIsUnknown: true,
  successFalseIsUnknown: true,
  verifyChecksNonce: true,
  looksAgainBeforeRefusing: true,
  reconciles: true,
  readdsMissingJobs: true,
  needsTransferAsProof: true,
  readsLogsBeforeClaim: true,
  readsHeadBeforeLogs: true,
  expiresByBlockTime: true,
  openRecordsNeverExpire: true,
  runnerRemembersIds: true,
};

/** Bounds of the explored space. */
export type Bounds = {
  /** Number of times the client sends the header, including retries. */
  readonly sends: number;
  /** Number of kills (kill -9) of any actor at any step. */
  readonly crashes: number;
  readonly reconcilers: number;
  /** Whether a job may vanish from the queue. Each loss counts as a kill. */
  readonly losesJobs: boolean;
};
