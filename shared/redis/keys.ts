/*
 * Every key in Redis, of every process, with its type. shared/queue/protocol.ts has the rest of what both sides of a queue agree on. The
 * hash tag, in braces, keeps the keys in one slot of a Redis Cluster.
 */

/** Name of a deployment that sets none. */
export const DEFAULT_NAME = "postern";

/** Begins every key and channel of the deployment of this name, except the runner's keys. */
export function prefixOf(name: string): string {
  return `{${name}}`;
}

export const PREFIX = prefixOf(DEFAULT_NAME);

/** String: is written again after each batch that all replicas confirm (replicated-writes.ts). */
export function confirmedKeyOf(prefix: string): string {
  return `${prefix}:confirmed`;
}

export type Keys = ReturnType<typeof keysOf>;

export function keysOf(prefix: string) {
  return {
    ...queueKeys(prefix),
    ...callKeys(prefix),
    ...paymentKeys(prefix),
    ...gatewayKeys(prefix),
    ...operatorKeys(prefix),
  } as const;
}

/** Keys of the queues, and of the jobs that they serve. */
function queueKeys(prefix: string) {
  return {
    /** String: the version of this layout, and who wrote it (shared/redis/layout.ts). */
    layout: `${prefix}:layout`,
    /** Hash: which deployment's data this is, and how new it is (shared/redis/deployment.ts). */
    deployment: `${prefix}:deployment`,
    /** Set, in partition 0: the indexes of the other partitions that have begun (shared/redis/deployment.ts). */
    partitions: `${prefix}:partitions`,
    /** Set: the names of the queues (the registry; shared/queue/queue-name.ts). */
    queues: `${prefix}:queues`,
    /**
     * BullMQ's keys of a queue, by the name of a list such as `wait`, or by a call's id; there is a queue for each origin and job.
     * The hash of a failed call has a field of ours, `head` (shared/queue/failed-head.ts).
     */
    inQueue: (queue: string, name: string) => `${prefix}:${queue}:${name}`,
    /** Sorted set: queues with calls that may be taken now; a producer blocks on it. */
    wake: `${prefix}:wake`,
    /** Sorted set: queues to be looked at again, by the time (shared/queue/frame.lua). */
    due: `${prefix}:due`,
    /** Set: queues with calls in flight, for the search for dead workers. */
    active: `${prefix}:active`,
    /** String, in partition 0: the worker that takes calls alone which have ended processes. */
    alone: `${prefix}:alone`,
    /** Hash: how many bytes the calls of a queue take as stored, failed ones included. */
    bytes: `${prefix}:bytes`,
    /** String: the number of waiting calls of an origin, as gateways read it. It expires after half a second. */
    depth: (origin: string) => `${prefix}:depth:${origin}`,
    /** Set: jobs that have settings or are paused. */
    jobs: `${prefix}:jobs`,
    /** String: when a producer last set the limits of the jobs; gone if Redis lost its data. */
    configured: `${prefix}:configured`,
    /**
     * Hash: what holds for a job in all its queues, by `<service id>/<job index>`; for a receiver of callbacks,
     * `callback/<receiver>`; or for all of them, `callback` (shared/queue/jobs.ts).
     */
    job: (gate: string) => `${prefix}:job:${gate}`,
    /** Set: the names of the queues with callbacks for this receiver. */
    receiver: (receiver: string) => `${prefix}:receiver:${receiver}`,
    /**
     * Sorted set: the public keys that verify callbacks, by when a producer last told of them
     * (shared/telemetry/processes/callback-keys.ts).
     */
    callbackKeys: `${prefix}:callback-keys`,
    /**
     * Sorted set: queues of callbacks whose receivers requests have named by wildcards of callback_hosts, by when
     * (shared/ingress/named-receivers.ts).
     */
    allNamedReceivers: `${prefix}:named-receivers`,
    /** Sorted set: those of one endpoint, `endpoint:<path>`, or of one payer, `payer:<address>`. */
    namedReceivers: (party: string) => `${prefix}:named-receivers:${party}`,
    /** String: how many calls of a job with a rate were taken in this period. */
    taken: (job: string) => `${prefix}:taken:${job}`,
    /**
     * Hash, in partition 0 of several: `concurrency`, `max` and `duration` of a job, which its gates would have in a deployment of one
     * partition.
     */
    limits: (job: string) => `${prefix}:limits:${job}`,
    /** Sorted set, in partition 0: the permits for calls of such a job, by when each ends (services/producer/consumer/permits.ts). */
    permits: (job: string) => `${prefix}:permits:${job}`,
    /** Sorted set, in partition 0: the queues that wait for a permit, as `<partition> <queue>`, by since when. */
    permitWaiters: (job: string) => `${prefix}:permit-waiters:${job}`,
    /**
     * Hash: the `version` of what operators say of jobs and endpoints. In other partitions than partition 0 it is that which they follow, and
     * `left` is 0 once no call is left to be released (shared/queue/intents.ts).
     */
    intents: `${prefix}:intents`,
    /** Hash: what operators have set for endpoints, as JSON, by path (shared/queue/endpoints.ts). */
    endpoints: `${prefix}:endpoints`,
    /** List: tests of endpoints that operators have ordered, as JSON (shared/ingress/endpoint-tests.ts). */
    endpointTests: `${prefix}:tests`,
    /** String: the outcome of a test, as JSON. */
    endpointTest: (id: string) => `${prefix}:test:${id}`,
    /** List: the calls that an endpoint holds, as `<queue> <id>`, oldest first. They lie among the delayed calls of their queues. */
    heldCalls: (path: string) => `${prefix}:held:${path}`,
    /** Hash: when the last pause of each job ended, or the hold of an endpoint that calls it, unix ms. */
    resumed: `${prefix}:resumed`,
  } as const;
}

/** Keys of the calls, waiting and ended. */
function callKeys(prefix: string) {
  return {
    /** Hash: the record of a call (shared/queue/protocol.ts). */
    record: (callId: string) => `${prefix}:call:${callId}`,
    /** List: the log of a call: its failed attempts, replays, early runs and discard, as JSON, oldest first (shared/queue/call-log.ts). */
    attempts: (callId: string) => `${prefix}:attempts:${callId}`,
    /** String: the result of a call, while it is kept (shared/call/results). */
    result: (callId: string) => `${prefix}:result:${callId}`,
    /** String: what the runner of a long call last said of its progress, as JSON. */
    progress: (callId: string) => `${prefix}:result:${callId}:progress`,
    /** Sorted set: what is kept of both, as `<bytes> <id>`, by the time of its deletion. */
    results: `${prefix}:results`,
    /** String: how many bytes these take. */
    resultsBytes: `${prefix}:results:bytes`,
    /** String: the gateway that deletes the results. While it is there, none is kept. */
    resultsOff: `${prefix}:results-off`,
    /** String: a delivered webhook, while it is kept whole (shared/call/kept). */
    kept: (callId: string) => `${prefix}:kept:${callId}`,
    /** Sorted set: these of an endpoint, as `<bytes> <id>`, by the time of their deletion. */
    keptOf: (path: string) => `${prefix}:kept-of:${path}`,
    /** String: how many bytes these take. */
    keptBytes: (path: string) => `${prefix}:kept-bytes:${path}`,
    /** Set: the paths of these endpoints. */
    keptEndpoints: `${prefix}:kept-endpoints`,
    /** String: the gateway that deletes kept webhooks. While it is there, none is kept. */
    keptOff: `${prefix}:kept-off`,
    /** A channel, no key: the ids of calls whose state, progress or result has changed (shared/call/results/changes.ts). */
    changes: `${prefix}:changes`,
    /** Sorted set: calls that failed once or were replayed, by the time they began to wait. */
    since: (queue: string) => `${prefix}:since:${queue}`,
  } as const;
}

/** Keys of payments, of refunds, and of what a client may use once. */
function paymentKeys(prefix: string) {
  return {
    /** Hash: what a paid call was paid with (shared/payments). */
    payment: (callId: string) => `${prefix}:payment:${callId}`,
    /** Sorted set: every payment, by the time it was claimed. */
    payments: `${prefix}:payments`,
    /** Sorted set: payments the reconciler has to look at, by the time it has to. */
    paymentsDue: `${prefix}:payments:due`,
    /** String: since when a gateway drains this Redis, in unix ms. While it is there, no payment is claimed. */
    paymentsDrained: `${prefix}:payments:drained`,
    /** Sorted set: payments that are SETTLING, by the time they were claimed. */
    paymentsUnresolved: `${prefix}:payments:unresolved`,
    /** Sorted set: payments in REVIEW, by the time they were claimed. */
    paymentsInReview: `${prefix}:payments:review`,
    /** Sorted set: disputed payments that no operator has acknowledged, by the time of the dispute. */
    paymentsDisputed: `${prefix}:payments:disputed`,
    /** Sorted set: payments whose call was discarded and whose refund is not exported, by when. */
    paymentsDiscarded: `${prefix}:payments:discarded`,
    /** Set: a payer's payments that are SETTLING or in REVIEW. */
    openPayments: (payer: string) => `${prefix}:payments:open:${payer}`,
    /** Hash: what a payment counts that is SETTLING or in REVIEW and has its body, as JSON: `[bytes, client, ...]`, by its id. */
    paymentsUsage: `${prefix}:payments:usage`,
    /** Hash: the sum of these bytes by client, and of all of them as `*`. */
    paymentsUsageBy: `${prefix}:payments:usage:by`,
    /** Sorted set: refused payments that were spent before they came, by when that was. */
    spentElsewhere: `${prefix}:payments:spent`,
    /** Hash: what is known of each of those. */
    spentElsewhereOf: `${prefix}:payments:spent:of`,
    /** String: the call that this transfer on the chain pays for. */
    paidTransfer: (network: string, transaction: string, position: number) =>
      `${prefix}:transfer:${network}:${transaction}:${position}`,
    /** Hash: an export of refunds. */
    refund: (exportId: string) => `${prefix}:refund:${exportId}`,
    /** List: the rows of an export of refunds, as JSON. */
    refundRows: (exportId: string) => `${prefix}:refund:${exportId}:rows`,
    /** Sorted set: calls whose refund is exported and not seen on the chain, by the time of the export. */
    refundsPending: `${prefix}:refunds`,
    /** String: the call that this transfer has paid back; it never expires. */
    refundTransfer: (network: string, transaction: string, position: number) =>
      `${prefix}:refund-transfer:${network}:${transaction}:${position}`,
    /**
     * Hash: the call that the payer means by a name. The name is a payment identifier, also if it was sent as an idempotency key. Any
     * other idempotency key is `key:` and its SHA-256, and a signature of version 1 `v1:` and a SHA-256: no identifier has a colon.
     */
    paymentIdentifier: (payer: string, identifier: string) => `${prefix}:payment-id:${payer}:${identifier}`,
    /** String: the call that used up an operator's quote. */
    usedQuote: (digest: string) => `${prefix}:quote:${digest}`,
    /** String: the call that used up a caller's nonce. */
    callerNonce: (hash: string) => `${prefix}:caller-nonce:${hash}`,
    /** String: there while the nonce of a payer's sign-in, used once, could be used again. */
    usedSignIn: (nonce: string) => `${prefix}:sign-in:${nonce}`,
    /** Hash: the quotes that a proof of work was used for (services/pricing). */
    pricingProof: (hash: string) => `${prefix}:pricing:proof:${hash}`,
    /** Hash: the last good value of a rate's source (shared/pricing/rates). */
    rate: (identity: string) => `${prefix}:rate:${identity}`,
    /** Hash: what a token was worth in the last hour and day (shared/pricing/rates/history.ts). */
    rateHistory: (network: string, asset: string) => `${prefix}:rate-history:${network}/${asset}`,
  } as const;
}

/** Keys of what gateways limit, refuse and open. */
function gatewayKeys(prefix: string) {
  return {
    /** String: the token bucket of an endpoint (services/webhooks-gateway/rate-limit.ts). */
    limitOfEndpoint: (path: string) => `${prefix}:limit:endpoint:${path}`,
    /** String: the token bucket of an address at an endpoint. */
    limitOfAddress: (path: string, address: string) => `${prefix}:limit:address:${address} ${path}`,
    /** String: the token bucket of an address's refused credentials. */
    limitOfRefusals: (address: string) => `${prefix}:limit:refusals:${address}`,
    /** Sorted set: the last refused requests of an endpoint, or of `unknown` paths, by time. */
    rejected: (path: string) => `${prefix}:rejected:${path}`,
    /** Hash: how many bytes these hold, by path (shared/telemetry/rejected). */
    rejectedBytes: `${prefix}:rejected`,
    /**
     * Hash: an endpoint that takes one secret in a handshake, and the secret until it is shown
     * (shared/ingress/opened-endpoints.ts).
     */
    opened: (path: string) => `${prefix}:opened:${path}`,
  } as const;
}

/** Keys of what is there for operators alone, and of the processes that run. */
function operatorKeys(prefix: string) {
  return {
    /** String: calls that runners took, a line each (shared/call-search/history). */
    historyBlock: (id: string) => `${prefix}:history:${id}`,
    /** Sorted set: these blocks, as `<calls> <bytes> <id>`, by their newest time. */
    history: `${prefix}:history`,
    /** Hash: how many calls and bytes these are. */
    historySize: `${prefix}:history:size`,
    /** Sorted set: calls that were forgotten lately, so that no producer writes of them. */
    historyForgotten: `${prefix}:history:forgotten`,
    /** String: the gateway that deletes the history. While it is there, none is kept (shared/ingress/evict.ts). */
    historyOff: `${prefix}:history-off`,
    /** String: the newest follower of the events, while there is one (shared/telemetry/events). */
    followed: `${prefix}:followed`,
    /** Channel: the events, while there is a follower. They are not stored. */
    events: `${prefix}:events`,
    /** Hash: what all processes counted in a span of time, by subject (shared/telemetry/series). */
    series: (step: string, start: number) => `${prefix}:series:${step}:${start}`,
    /** Hash: payments and what they brought, by token and job. */
    earned: (day: string) => `${prefix}:earned:${day}`,
    /** Hash: the payments among these that the chain contradicts, and their amounts, by token and job. */
    disputed: (day: string) => `${prefix}:disputed:${day}`,
    /** Hash: refunds and their amounts, by token and job. */
    refunded: (day: string) => `${prefix}:refunded:${day}`,
    /** Hash: a process or part that runs, while it reports (shared/telemetry/processes). */
    process: (id: string) => `${prefix}:process:${id}`,
    /** Sorted set: these, by the time of their last report. */
    processes: `${prefix}:processes`,
    /** Sorted set: worker id, by the time of its last heartbeat. */
    workers: `${prefix}:workers`,
    /** Hash: work of an operator's that outlives its request (shared/console/runs). */
    run: (id: string) => `${prefix}:run:${id}`,
    /** Sorted set: these, by the time they were begun. */
    runs: `${prefix}:runs`,
    /** Sorted set: those that have not ended, by the time from which any console process may take them. */
    openRuns: `${prefix}:runs:open`,
    /** String: there while a session of an operator would hold that was ended before its time. */
    endedSession: (id: string) => `${prefix}:ended-session:${id}`,
    /**
     * Stream: who did what: `acts`; the `repeats` of a loop or bulk operation; `money`; and `reads` of bodies and results
     * (shared/redis/audit).
     */
    audit: (stream: "acts" | "repeats" | "money" | "reads") => `${prefix}:audit:${stream}`,
    /** String: how many lines of this action an operator has left in a day. */
    auditCount: (action: string, name: string) => `${prefix}:audit:count:${action}:${name}`,
    /** String: signed by each session of an operator (services/console/auth). */
    sessionSalt: `${prefix}:session-salt`,
  } as const;
}

/** Begins every key of a deployment's runners. No name of a deployment ends with `-runner`. */
export function runnerPrefixOf(name: string): string {
  return prefixOf(`${name}-runner`);
}

/** The keys of the runners on one Redis, which need not be the gateways'. services/runner/call-store.ts has the fields. */
export type RunnerKeys = ReturnType<typeof runnerKeysOf>;

export function runnerKeysOf(prefix: string) {
  return {
    /** String: the layout of these keys, and the release that wrote it (shared/redis/layout.ts). */
    layout: `${prefix}:layout`,
    /** Hash: what is remembered of a call, by its Idempotency-Key. */
    call: (idempotencyKey: string) => `${prefix}:call:${idempotencyKey}`,
    /** Sorted set: the calls that are listed, by the time their listing ends; +inf for those that have not ended. */
    calls: `${prefix}:calls`,
    /** Sorted set: long calls, by when a runner has to look at them: a waiting call at once or after a pause, a running one when its lease ends. */
    due: `${prefix}:due`,
    /** String: the answer of a call, while it is kept (services/runner/remembered-answer.ts). */
    answer: (idempotencyKey: string) => `${prefix}:answer:${idempotencyKey}`,
    /** Sorted set: the kept answers, as `<bytes> <key>`, by the time of their deletion. */
    answers: `${prefix}:answers`,
    /** String: how many bytes these take. */
    answersBytes: `${prefix}:answers:bytes`,
    /** Hash: the result of a long call that no gateway has taken yet (services/runner/delivery-store.ts). */
    delivery: (idempotencyKey: string) => `${prefix}:delivery:${idempotencyKey}`,
    /** Sorted set: these, by the time a runner has to deliver them. */
    deliveries: `${prefix}:deliveries`,
  } as const;
}
