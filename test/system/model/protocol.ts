/** The rules of the paid path that a wrong variant breaks, one at a time; all hold in the protocol as built. */
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

/** How much of the world is explored. */
export type Bounds = {
  /** How often the client sends the header, first tries and retries together. */
  readonly sends: number;
  /** How many kill -9, each of any actor at any step. */
  readonly crashes: number;
  readonly reconcilers: number;
  /** Whether a job may vanish from the queue; each loss counts as a kill. */
  readonly losesJobs: boolean;
};
