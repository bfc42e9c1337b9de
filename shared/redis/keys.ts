import type { Origin } from "../job-call/job-call.ts";

/*
 * Every key in Redis, of every process. What else both sides of a queue must agree on is in shared/queue/protocol.ts.
 *
 *   {postern}:webhook:*  {postern}:x402:*   BullMQ's keys, one queue per origin, so that neither starves the other
 *   {postern}:call:<id>                     hash: the record of a call (shared/queue/protocol.ts)
 *   {postern}:attempts:<id>                 list: the failed attempts of a call, as JSON, oldest first
 *   {postern}:since:<origin>                zset: calls that failed once or were replayed, by the time they began to wait
 *   {postern}:payment:<id>                  hash: what a paid call was paid with (shared/payments)
 *   {postern}:payments                      zset: every payment, by the time it was claimed
 *   {postern}:payments:due                  zset: payments the reconciler has to look at, by the time it has to
 *   {postern}:payments:unresolved           zset: payments that are SETTLING or SETTLED, by the time they were claimed
 *   {postern}:payments:review               zset: payments in REVIEW, by the time they were claimed
 *   {postern}:payments:open:<payer>         set: a payer's payments that are SETTLING or in REVIEW
 *   {postern}:payment-id:<payer>:<id>       hash: the call that a payer's own payment identifier stands for
 *   {postern}:quote:<digest>                string: the call that used up an operator's quote
 *   {postern}:caller-nonce:<hash>           string: the call that used up a caller's nonce
 *   {postern}:pricing:proof:<hash>          string: the first answer a proof of work was used for (services/pricing)
 *   {postern}:rate:<identity>               hash: the last good value of a rate's source (shared/pricing/rates)
 *   {postern}:limit:endpoint:<path>         string: the token bucket of an endpoint (shared/gateway/rate-limit.ts)
 *   {postern}:limit:address:<address> <path>  string: the token bucket of an address at an endpoint
 *   {postern}:limit:refusals:<address>      string: the token bucket of an address's refused credentials
 *   {postern}:rejected:<path>               zset: the last refused requests of an endpoint, or of `unknown` paths, by time
 *   {postern}:rejected                      hash: how many bytes these hold, by path (shared/rejected)
 *   {postern}:opened:<path>                 hash: an endpoint that takes one secret in a handshake, and the secret until it
 *                                           is shown (shared/gateway/opened-endpoints.ts)
 *   {postern}:workers                       zset: worker id, by the time of its last heartbeat
 *   {postern}:audit                         stream: who replayed, discarded, resolved or opened what
 *
 * The hash tag keeps all of them in one slot of a Redis Cluster.
 */
export const PREFIX = "{postern}";

export const keys = {
  /** BullMQ's: a call that waits, is delayed, active or failed. */
  job: (origin: Origin, callId: string) => `${PREFIX}:${origin}:${callId}`,
  /** BullMQ's: the failed calls of an origin, by the time they failed. */
  failed: (origin: Origin) => `${PREFIX}:${origin}:failed`,
  record: (callId: string) => `${PREFIX}:call:${callId}`,
  attempts: (callId: string) => `${PREFIX}:attempts:${callId}`,
  since: (origin: Origin) => `${PREFIX}:since:${origin}`,
  payment: (callId: string) => `${PREFIX}:payment:${callId}`,
  payments: `${PREFIX}:payments`,
  paymentsDue: `${PREFIX}:payments:due`,
  paymentsUnresolved: `${PREFIX}:payments:unresolved`,
  paymentsInReview: `${PREFIX}:payments:review`,
  openPayments: (payer: string) => `${PREFIX}:payments:open:${payer}`,
  paymentIdentifier: (payer: string, identifier: string) => `${PREFIX}:payment-id:${payer}:${identifier}`,
  usedQuote: (digest: string) => `${PREFIX}:quote:${digest}`,
  callerNonce: (hash: string) => `${PREFIX}:caller-nonce:${hash}`,
  pricingProof: (hash: string) => `${PREFIX}:pricing:proof:${hash}`,
  rate: (identity: string) => `${PREFIX}:rate:${identity}`,
  limitOfEndpoint: (path: string) => `${PREFIX}:limit:endpoint:${path}`,
  limitOfAddress: (path: string, address: string) => `${PREFIX}:limit:address:${address} ${path}`,
  limitOfRefusals: (address: string) => `${PREFIX}:limit:refusals:${address}`,
  rejected: (path: string) => `${PREFIX}:rejected:${path}`,
  rejectedBytes: `${PREFIX}:rejected`,
  opened: (path: string) => `${PREFIX}:opened:${path}`,
  workers: `${PREFIX}:workers`,
  audit: `${PREFIX}:audit`,
} as const;

/*
 * The keys of the runners on one Redis, which need not be the gateways'. services/runner/call-store.ts has the fields.
 *
 *   {postern-runner}:call:<key>   hash: what is remembered of a call, by its Idempotency-Key
 *   {postern-runner}:calls        zset: every call remembered, by the time it may be forgotten (+inf: not before it ends)
 *   {postern-runner}:due          zset: long calls, by the time a runner has to look at them. A waiting call is due at once
 *                                 or after a pause, a running one when its lease lapses
 */
const RUNNER_PREFIX = "{postern-runner}";

export const runnerKeys = {
  call: (idempotencyKey: string) => `${RUNNER_PREFIX}:call:${idempotencyKey}`,
  calls: `${RUNNER_PREFIX}:calls`,
  due: `${RUNNER_PREFIX}:due`,
} as const;
