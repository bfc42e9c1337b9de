/*
 * Every key in Redis, of every process. What else both sides of a queue must agree on is in shared/queue/protocol.ts.
 *
 *   {postern}:layout                        string: the version of this layout, and who wrote it (shared/redis/layout.ts)
 *   {postern}:queues                        set: the names of the queues (the registry; shared/queue/queue-name.ts)
 *   {postern}:<queue>:*                     BullMQ's keys of a queue, one for each origin and job; the hash of a failed call has a
 *                                           field of ours, `head` (shared/queue/failed-head.ts)
 *   {postern}:wake                          zset: queues with calls that may be taken now; a producer blocks on it
 *   {postern}:due                           zset: queues to be looked at again, by the time (shared/queue/frame.lua)
 *   {postern}:active                        set: queues with calls in hand, for the search for dead workers
 *   {postern}:alone                         string: the worker that takes calls alone which have ended processes
 *   {postern}:bytes                         hash: how many bytes the calls of a queue take as stored, failed ones included
 *   {postern}:depth:<origin>                string: what gateways are told of the calls of an origin, for half a second
 *   {postern}:jobs                          set: jobs that have settings or are paused
 *   {postern}:configured                    string: when a producer last set the limits of the jobs; gone if Redis lost its data
 *   {postern}:job:<gate>                    hash: what holds for a job in all its queues, by `<service id>/<job index>`; for a receiver of
 *                                           callbacks, `callback/<receiver>`; or for all of them, `callback` (shared/queue/jobs.ts)
 *   {postern}:receiver:<receiver>           set: the names of the queues with callbacks for this receiver
 *   {postern}:callback-keys                 zset: the public keys that verify callbacks, by when a producer last told of them
 *                                           (shared/telemetry/processes/callback-keys.ts)
 *   {postern}:named-receivers               zset: queues of callbacks whose receivers requests have named by wildcards of callback_hosts, by
 *                                           when (shared/ingress/named-receivers.ts)
 *   {postern}:named-receivers:<party>       zset: those of one endpoint, `endpoint:<path>`, or of one payer, `payer:<address>`
 *   {postern}:taken:<job>                   string: how many calls of a job with a rate were taken in this period
 *   {postern}:call:<id>                     hash: the record of a call (shared/queue/protocol.ts)
 *   {postern}:attempts:<id>                 list: the log of a call: its failed attempts, replays and discard, as JSON, oldest first
 *                                           (shared/queue/call-log.ts)
 *   {postern}:result:<id>                   string: the result of a call, while it is kept (shared/call/results)
 *   {postern}:result:<id>:progress          string: what the runner of a long call last said of its progress, as JSON
 *   {postern}:results                       zset: what is kept of both, as `<bytes> <id>`, by the time it is let go
 *   {postern}:results:bytes                 string: how many bytes these take
 *   {postern}:results-off                   string: the gateway that lets go of results; while it is there, none is kept
 *   {postern}:changes                       a channel, no key: the ids of calls whose state, progress or result has changed
 *                                           (shared/call/results/changes.ts)
 *   {postern}:since:<queue>                 zset: calls that failed once or were replayed, by the time they began to wait
 *   {postern}:payment:<id>                  hash: what a paid call was paid with (shared/payments)
 *   {postern}:payments                      zset: every payment, by the time it was claimed
 *   {postern}:payments:due                  zset: payments the reconciler has to look at, by the time it has to
 *   {postern}:payments:unresolved           zset: payments that are SETTLING, by the time they were claimed
 *   {postern}:payments:review               zset: payments in REVIEW, by the time they were claimed
 *   {postern}:payments:discarded           zset: payments whose call was discarded and whose refund is not exported, by when
 *   {postern}:payments:open:<payer>         set: a payer's payments that are SETTLING or in REVIEW
 *   {postern}:payments:usage                hash: what a payment counts that is SETTLING or in REVIEW and has its body, as JSON:
 *                                           `[bytes, client, ...]`, by its id
 *   {postern}:payments:usage:by             hash: the sum of these bytes by client, and of all of them as `*`
 *   {postern}:payments:spent                zset: refused payments that were spent before they came, by when that was
 *   {postern}:payments:spent:of             hash: what is known of each of those
 *   {postern}:transfer:<network>:<tx>:<n>   string: the call that this transfer on the chain pays for
 *   {postern}:refund:<export>               hash: an export of refunds; its rows are JSON in the list {postern}:refund:<export>:rows
 *   {postern}:refunds                       zset: calls whose refund is exported and not seen on the chain, by the time of the export
 *   {postern}:refund-transfer:<network>:<tx>:<n>  string: the call that this transfer has paid back; it never expires
 *   {postern}:payment-id:<payer>:<name>     hash: the call that a name of the payer's stands for: a payment identifier, also sent as an
 *                                           idempotency key; any other idempotency key as `key:` and its SHA-256; or, for a
 *                                           signature of version 1, `v1:` and a SHA-256. No identifier has a colon
 *   {postern}:quote:<digest>                string: the call that used up an operator's quote
 *   {postern}:caller-nonce:<hash>           string: the call that used up a caller's nonce
 *   {postern}:sign-in:<nonce>               string: there while the nonce of a payer's sign-in, used once, could be used again
 *   {postern}:pricing:proof:<hash>          hash: the quotes that a proof of work was used for (services/pricing)
 *   {postern}:rate:<identity>               hash: the last good value of a rate's source (shared/pricing/rates)
 *   {postern}:rate-history:<network>/<asset>  hash: what a token was worth in the last hour and day (shared/pricing/rates/history.ts)
 *   {postern}:limit:endpoint:<path>         string: the token bucket of an endpoint (services/webhooks-gateway/rate-limit.ts)
 *   {postern}:limit:address:<address> <path>  string: the token bucket of an address at an endpoint
 *   {postern}:limit:refusals:<address>      string: the token bucket of an address's refused credentials
 *   {postern}:rejected:<path>               zset: the last refused requests of an endpoint, or of `unknown` paths, by time
 *   {postern}:rejected                      hash: how many bytes these hold, by path (shared/console/rejected)
 *   {postern}:history:<id>                  string: calls that runners took, a line each (shared/call-search/history)
 *   {postern}:history                       zset: these blocks, as `<calls> <bytes> <id>`, by their newest time
 *   {postern}:history:size                  hash: how many calls and bytes these are
 *   {postern}:history:forgotten             zset: calls that were forgotten lately, so that no producer writes of them
 *   {postern}:history-off                   string: the gateway that lets go of history; while it is there, none is kept
 *                                           (shared/ingress/history.ts)
 *   {postern}:opened:<path>                 hash: an endpoint that takes one secret in a handshake, and the secret until it
 *                                           is shown (shared/ingress/opened-endpoints.ts)
 *   {postern}:followed                      string: the newest follower, while anybody follows what happens (shared/telemetry/events)
 *   {postern}:events                        channel: what happens, told while somebody follows; it is kept nowhere
 *   {postern}:series:<step>:<start>         hash: what all processes counted in a span of time, by subject (shared/telemetry/series)
 *   {postern}:earned:<day>                  hash: payments and what they brought, by token and job
 *   {postern}:refunded:<day>                hash: refunds and their amounts, by token and job
 *   {postern}:process:<id>                  hash: a process or part that runs, while it reports (shared/telemetry/processes)
 *   {postern}:processes                     zset: these, by the time of their last report
 *   {postern}:workers                       zset: worker id, by the time of its last heartbeat
 *   {postern}:run:<id>                      hash: work of an operator's that outlives its request (shared/console/runs)
 *   {postern}:runs                          zset: these, by the time they were begun
 *   {postern}:runs:open                     zset: those that have not ended, by the time from which anybody may take them
 *   {postern}:ended-session:<id>            string: there while a session of an operator would hold that was ended before its time
 *   {postern}:audit:<stream>                stream: who did what: `acts`; the `repeats` of a loop or bulk operation; `money`; and `reads` of
 *                                           bodies and results (shared/redis/audit)
 *   {postern}:audit:count:<action>:<name>   string: how many lines of this action an operator has left in a day
 *   {postern}:session-salt                  string: signed by each session of an operator (services/console/auth)
 *
 * The hash tag, in braces, keeps them in one slot of a Redis Cluster.
 */
export const PREFIX = "{postern}";

export type Keys = ReturnType<typeof keysOf>;

export function keysOf(prefix: string) {
  return {
    layout: `${prefix}:layout`,
    queues: `${prefix}:queues`,
    /** BullMQ's keys of a queue: a call by its id, or a list such as `wait` or `failed`. */
    inQueue: (queue: string, name: string) => `${prefix}:${queue}:${name}`,
    wake: `${prefix}:wake`,
    due: `${prefix}:due`,
    active: `${prefix}:active`,
    alone: `${prefix}:alone`,
    bytes: `${prefix}:bytes`,
    depth: (origin: string) => `${prefix}:depth:${origin}`,
    jobs: `${prefix}:jobs`,
    configured: `${prefix}:configured`,
    job: (gate: string) => `${prefix}:job:${gate}`,
    receiver: (receiver: string) => `${prefix}:receiver:${receiver}`,
    callbackKeys: `${prefix}:callback-keys`,
    namedReceivers: (party: string) => `${prefix}:named-receivers:${party}`,
    allNamedReceivers: `${prefix}:named-receivers`,
    taken: (job: string) => `${prefix}:taken:${job}`,
    record: (callId: string) => `${prefix}:call:${callId}`,
    attempts: (callId: string) => `${prefix}:attempts:${callId}`,
    result: (callId: string) => `${prefix}:result:${callId}`,
    progress: (callId: string) => `${prefix}:result:${callId}:progress`,
    results: `${prefix}:results`,
    resultsBytes: `${prefix}:results:bytes`,
    resultsOff: `${prefix}:results-off`,
    changes: `${prefix}:changes`,
    since: (queue: string) => `${prefix}:since:${queue}`,
    payment: (callId: string) => `${prefix}:payment:${callId}`,
    payments: `${prefix}:payments`,
    paymentsDue: `${prefix}:payments:due`,
    paymentsDrained: `${prefix}:payments:drained`,
    paymentsUnresolved: `${prefix}:payments:unresolved`,
    paymentsInReview: `${prefix}:payments:review`,
    paymentsUsage: `${prefix}:payments:usage`,
    paymentsUsageBy: `${prefix}:payments:usage:by`,
    spentElsewhere: `${prefix}:payments:spent`,
    spentElsewhereOf: `${prefix}:payments:spent:of`,
    paidTransfer: (network: string, transaction: string, position: number) =>
      `${prefix}:transfer:${network}:${transaction}:${position}`,
    refund: (exportId: string) => `${prefix}:refund:${exportId}`,
    refundRows: (exportId: string) => `${prefix}:refund:${exportId}:rows`,
    refundsPending: `${prefix}:refunds`,
    refundTransfer: (network: string, transaction: string, position: number) =>
      `${prefix}:refund-transfer:${network}:${transaction}:${position}`,
    openPayments: (payer: string) => `${prefix}:payments:open:${payer}`,
    paymentIdentifier: (payer: string, identifier: string) => `${prefix}:payment-id:${payer}:${identifier}`,
    usedQuote: (digest: string) => `${prefix}:quote:${digest}`,
    callerNonce: (hash: string) => `${prefix}:caller-nonce:${hash}`,
    usedSignIn: (nonce: string) => `${prefix}:sign-in:${nonce}`,
    pricingProof: (hash: string) => `${prefix}:pricing:proof:${hash}`,
    rate: (identity: string) => `${prefix}:rate:${identity}`,
    rateHistory: (network: string, asset: string) => `${prefix}:rate-history:${network}/${asset}`,
    limitOfEndpoint: (path: string) => `${prefix}:limit:endpoint:${path}`,
    limitOfAddress: (path: string, address: string) => `${prefix}:limit:address:${address} ${path}`,
    limitOfRefusals: (address: string) => `${prefix}:limit:refusals:${address}`,
    ...operatorKeys(prefix),
    opened: (path: string) => `${prefix}:opened:${path}`,
    followed: `${prefix}:followed`,
    events: `${prefix}:events`,
    workers: `${prefix}:workers`,
  } as const;
}

/** Of what is there for whoever operates the deployment, and no call needs. */
function operatorKeys(prefix: string) {
  return {
    paymentsDiscarded: `${prefix}:payments:discarded`,
    rejected: (path: string) => `${prefix}:rejected:${path}`,
    rejectedBytes: `${prefix}:rejected`,
    historyBlock: (id: string) => `${prefix}:history:${id}`,
    history: `${prefix}:history`,
    historySize: `${prefix}:history:size`,
    historyForgotten: `${prefix}:history:forgotten`,
    historyOff: `${prefix}:history-off`,
    series: (step: string, start: number) => `${prefix}:series:${step}:${start}`,
    earned: (day: string) => `${prefix}:earned:${day}`,
    refunded: (day: string) => `${prefix}:refunded:${day}`,
    process: (id: string) => `${prefix}:process:${id}`,
    processes: `${prefix}:processes`,
    run: (id: string) => `${prefix}:run:${id}`,
    runs: `${prefix}:runs`,
    openRuns: `${prefix}:runs:open`,
    endedSession: (id: string) => `${prefix}:ended-session:${id}`,
    audit: (stream: "acts" | "repeats" | "money" | "reads") => `${prefix}:audit:${stream}`,
    auditCount: (action: string, name: string) => `${prefix}:audit:count:${action}:${name}`,
    sessionSalt: `${prefix}:session-salt`,
  } as const;
}

/*
 * The keys of the runners on one Redis, which need not be the gateways'. services/runner/call-store.ts has the fields.
 *
 *   {postern-runner}:layout       string: the layout of these keys, and the release that wrote it (shared/redis/layout.ts)
 *   {postern-runner}:call:<key>   hash: what is remembered of a call, by its Idempotency-Key
 *   {postern-runner}:calls        zset: the calls that are listed, by the time they are no longer (+inf: not before they end)
 *   {postern-runner}:due          zset: long calls, by the time a runner has to look at them. A waiting call is due at once
 *                                 or after a pause, a running one when its lease lapses
 *   {postern-runner}:answer:<key> string: the answer of a call, while it is kept (services/runner/remembered-answer.ts)
 *   {postern-runner}:answers      zset: the kept answers, as `<bytes> <key>`, by the time they are let go
 *   {postern-runner}:answers:bytes  string: how many bytes these take
 *   {postern-runner}:delivery:<key> hash: the result of a long call that no gateway has taken yet (services/runner/delivery-store.ts)
 *   {postern-runner}:deliveries   zset: these, by the time a runner has to deliver them
 */
export const RUNNER_PREFIX = "{postern-runner}";

export const runnerKeys = {
  layout: `${RUNNER_PREFIX}:layout`,
  call: (idempotencyKey: string) => `${RUNNER_PREFIX}:call:${idempotencyKey}`,
  calls: `${RUNNER_PREFIX}:calls`,
  due: `${RUNNER_PREFIX}:due`,
  answer: (idempotencyKey: string) => `${RUNNER_PREFIX}:answer:${idempotencyKey}`,
  answers: `${RUNNER_PREFIX}:answers`,
  answersBytes: `${RUNNER_PREFIX}:answers:bytes`,
  delivery: (idempotencyKey: string) => `${RUNNER_PREFIX}:delivery:${idempotencyKey}`,
  deliveries: `${RUNNER_PREFIX}:deliveries`,
} as const;
