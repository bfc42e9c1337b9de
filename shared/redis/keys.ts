/*
 * Every key in Redis, of every process, with its type. shared/queue/protocol.ts has the rest of the protocol of a queue. The
 * hash tag, in braces, keeps the keys in one slot of a Redis Cluster.
 */

/** Name of a deployment whose configuration has none. */
export const DEFAULT_NAME = "postern";

/** Returns the beginning of every key and channel of the deployment with this name, except the runner's keys. */
export function prefixOf(name: string): string {
  return `{${name}}`;
}

export const PREFIX = prefixOf(DEFAULT_NAME);

/** String: written at the end of each batch that all replicas must confirm (replicated-writes.ts). */
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
    /** String: the version of this layout, and the release that wrote it (shared/redis/layout.ts). */
    layout: `${prefix}:layout`,
    /** Hash: the deployment that owns this data, and the age of the data (shared/redis/deployment.ts). */
    deployment: `${prefix}:deployment`,
    /** Set, in partition 0: the indexes of the other partitions in use (shared/redis/deployment.ts). */
    partitions: `${prefix}:partitions`,
    /** Set: the names of the queues (the registry; shared/queue/queue-name.ts). */
    queues: `${prefix}:queues`,
    /**
     * BullMQ's keys of a queue. There is a queue for each origin and job. `name` is a list such as `wait`, or a call's id.
     * The hash of a failed call also has a field of Postern, `head` (shared/queue/failed-head.ts).
     */
    inQueue: (queue: string, name: string) => `${prefix}:${queue}:${name}`,
    /** Sorted set: queues with calls that may be taken now; a producer blocks on it. */
    wake: `${prefix}:wake`,
    /** Sorted set: queues to check again, by due time (shared/queue/frame.lua). */
    due: `${prefix}:due`,
    /** Set: queues with calls in flight, for the search for dead workers. */
    active: `${prefix}:active`,
    /**
     * String, in partition 0: the worker that may take a call alone, which means that it works on no other call. Only a
     * call during which processes have died is taken alone.
     */
    alone: `${prefix}:alone`,
    /** Hash: the stored size of the calls of each queue, including failed ones. */
    bytes: `${prefix}:bytes`,
    /** String: the depth of all queues of an origin, cached for gateways. It expires after half a second. */
    depth: (origin: string) => `${prefix}:depth:${origin}`,
    /** Set: jobs that have settings or are paused. */
    jobs: `${prefix}:jobs`,
    /** String: when a producer last set the limits of the jobs; gone if Redis lost its data. */
    configured: `${prefix}:configured`,
    /**
     * Hash: a gate (shared/queue/jobs.ts). Its name is `<service id>/<job index>` for a job, `callback/<receiver>` for one
     * receiver of callbacks, and `callback` for all receivers.
     */
    job: (gate: string) => `${prefix}:job:${gate}`,
    /** Set: the names of the queues with callbacks for this receiver. */
    receiver: (receiver: string) => `${prefix}:receiver:${receiver}`,
    /**
     * Sorted set: the public keys that verify callbacks, by when a producer last published them
     * (shared/telemetry/processes/callback-keys.ts).
     */
    callbackKeys: `${prefix}:callback-keys`,
    /**
     * Sorted set: callback queues of receivers, by the time of the last request that named the receiver. Only for
     * receivers that `callback_hosts` allows by a wildcard (shared/ingress/named-receivers.ts).
     */
    allNamedReceivers: `${prefix}:named-receivers`,
    /**
     * Sorted set: the part of `allNamedReceivers` that comes from requests to one endpoint (`endpoint:<path>`) or of one
     * payer (`payer:<address>`).
     */
    namedReceivers: (party: string) => `${prefix}:named-receivers:${party}`,
    /** String: how many calls producers have taken in the current period, for a job with a `rate`. It expires with the period. */
    taken: (job: string) => `${prefix}:taken:${job}`,
    /**
     * Hash, in partition 0: the limits of a job (`concurrency`, `max` and `duration`). With only one partition, the gate
     * of the job has them instead.
     */
    limits: (job: string) => `${prefix}:limits:${job}`,
    /**
     * Sorted set, in partition 0: the permits for calls of a job with limits, by expiry
     * (services/producer/consumer/permits.ts).
     */
    permits: (job: string) => `${prefix}:permits:${job}`,
    /** Sorted set, in partition 0: the queues that wait for a permit, as `<partition> <queue>`, by when they began to wait. */
    permitWaiters: (job: string) => `${prefix}:permit-waiters:${job}`,
    /**
     * Hash: the `version` of the operators' intents for jobs and endpoints. In a partition other than 0, it is the version
     * that was copied from partition 0, and `left` is 0 once all held calls of enabled endpoints are released
     * (shared/queue/intents.ts).
     */
    intents: `${prefix}:intents`,
    /** Hash: the operators' settings of endpoints, as JSON, by path (shared/queue/endpoints.ts). */
    endpoints: `${prefix}:endpoints`,
    /** List: tests of endpoints that operators have ordered, as JSON (shared/ingress/endpoint-tests.ts). */
    endpointTests: `${prefix}:tests`,
    /** String: the outcome of a test, as JSON. */
    endpointTest: (id: string) => `${prefix}:test:${id}`,
    /**
     * List: the calls that an endpoint holds, as `<queue> <id>`, oldest first. They are also among the delayed calls of their
     * queues.
     */
    heldCalls: (path: string) => `${prefix}:held:${path}`,
    /** Hash: the end (unix ms) of the last pause of each job, or of the last hold of its endpoint. */
    resumed: `${prefix}:resumed`,
  } as const;
}

/** Keys of the calls, waiting and ended. */
function callKeys(prefix: string) {
  return {
    /** Hash: the record of a call (shared/queue/protocol.ts). */
    record: (callId: string) => `${prefix}:call:${callId}`,
    /**
     * List: the log of a call: its failed attempts, replays, early runs and discard, as JSON, oldest first
     * (shared/queue/call-log.ts).
     */
    attempts: (callId: string) => `${prefix}:attempts:${callId}`,
    /** String: the result of a call, while it is kept (shared/call/results). */
    result: (callId: string) => `${prefix}:result:${callId}`,
    /** String: the newest progress of the runner of a long call, as JSON. */
    progress: (callId: string) => `${prefix}:result:${callId}:progress`,
    /**
     * Sorted set: the kept results and progress messages, as `<bytes> <id>`, by expiry. The id is the end of the value's key,
     * after `:result:`.
     */
    results: `${prefix}:results`,
    /** String: the total size of the kept results and progress messages. */
    resultsBytes: `${prefix}:results:bytes`,
    /** String: the gateway that evicts results. While this key exists, no result is kept. */
    resultsOff: `${prefix}:results-off`,
    /** String: a delivered webhook, while it is kept whole (shared/call/kept). */
    kept: (callId: string) => `${prefix}:kept:${callId}`,
    /** Sorted set: the kept webhooks of an endpoint, as `<bytes> <id>`, by expiry. */
    keptOf: (path: string) => `${prefix}:kept-of:${path}`,
    /** String: the total size of an endpoint's kept webhooks. */
    keptBytes: (path: string) => `${prefix}:kept-bytes:${path}`,
    /** Set: the paths of the endpoints with kept webhooks. */
    keptEndpoints: `${prefix}:kept-endpoints`,
    /** String: the gateway that evicts kept webhooks. While this key exists, no further webhook is kept. */
    keptOff: `${prefix}:kept-off`,
    /** A channel, no key: the ids of calls whose state, progress or result has changed (shared/call/results/changes.ts). */
    changes: `${prefix}:changes`,
    /** Sorted set: calls that failed once or were replayed, by the time they began to wait. */
    since: (queue: string) => `${prefix}:since:${queue}`,
  } as const;
}

/** Keys of payments, of refunds, and of quotes, nonces and identifiers that a client may use once. */
function paymentKeys(prefix: string) {
  return {
    /** Hash: the payment of a paid call (shared/payments). */
    payment: (callId: string) => `${prefix}:payment:${callId}`,
    /** Sorted set: every payment, by the time it was claimed. */
    payments: `${prefix}:payments`,
    /** Sorted set: payments that the reconciler must check, by due time. */
    paymentsDue: `${prefix}:payments:due`,
    /** String: when a gateway began to drain this Redis, in unix ms. While this key exists, no payment is claimed. */
    paymentsDrained: `${prefix}:payments:drained`,
    /** Sorted set: payments that are SETTLING, by the time they were claimed. */
    paymentsUnresolved: `${prefix}:payments:unresolved`,
    /** Sorted set: payments in REVIEW, by the time they were claimed. */
    paymentsInReview: `${prefix}:payments:review`,
    /** Sorted set: disputed payments that no operator has acknowledged, by the time of the dispute. */
    paymentsDisputed: `${prefix}:payments:disputed`,
    /** Sorted set: payments whose call was discarded and whose refund is not exported, by the time of the discard. */
    paymentsDiscarded: `${prefix}:payments:discarded`,
    /** Set: a payer's payments that are SETTLING or in REVIEW. */
    openPayments: (payer: string) => `${prefix}:payments:open:${payer}`,
    /** Hash: JSON `[bytes, client, ...]` by id, for each payment that is SETTLING or in REVIEW and still has its body. */
    paymentsUsage: `${prefix}:payments:usage`,
    /** Hash: the sum of the bytes in `paymentsUsage` for each client, and the sum for all payments as `*`. */
    paymentsUsageBy: `${prefix}:payments:usage:by`,
    /** Sorted set: payments that were refused because their authorization was already used or cancelled, by time. */
    spentElsewhere: `${prefix}:payments:spent`,
    /** Hash: details of each payment in `spentElsewhere`. */
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
    /** String: the call that this transfer has refunded. The key never expires. */
    refundTransfer: (network: string, transaction: string, position: number) =>
      `${prefix}:refund-transfer:${network}:${transaction}:${position}`,
    /**
     * Hash: the call that this payer paid for under `identifier`. This is the client's payment identifier, which may also
     * come as an idempotency key. For any other idempotency key, it is `key:` and the key's SHA-256. For a payment of
     * version 1, it is `v1:` and a SHA-256. A payment identifier has no colon, so the three kinds differ.
     */
    paymentIdentifier: (payer: string, identifier: string) => `${prefix}:payment-id:${payer}:${identifier}`,
    /** String: the call that used up an operator's quote. */
    usedQuote: (digest: string) => `${prefix}:quote:${digest}`,
    /** String: the call that used up a caller's nonce. */
    callerNonce: (hash: string) => `${prefix}:caller-nonce:${hash}`,
    /** String: exists while a payer's sign-in could be repeated, because its nonce was used but is still valid. */
    usedSignIn: (nonce: string) => `${prefix}:sign-in:${nonce}`,
    /** Hash: the quotes for which a proof of work was used (services/pricing). */
    pricingProof: (hash: string) => `${prefix}:pricing:proof:${hash}`,
    /** Hash: the last good value of a rate's source (shared/pricing/rates). */
    rate: (identity: string) => `${prefix}:rate:${identity}`,
    /** Hash: the rates of a token in the last hour and day (shared/pricing/rates/history.ts). */
    rateHistory: (network: string, asset: string) => `${prefix}:rate-history:${network}/${asset}`,
  } as const;
}

/** Keys of rate limits, refused requests and opened endpoints of gateways. */
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
    /** Hash: the size of the refused requests, by path (shared/telemetry/rejected). */
    rejectedBytes: `${prefix}:rejected`,
    /**
     * Hash: exists while an endpoint accepts a secret in a handshake. Once a handshake has brought the secret, the hash holds
     * it until a command shows it (shared/ingress/opened-endpoints.ts).
     */
    opened: (path: string) => `${prefix}:opened:${path}`,
  } as const;
}

/** Keys that only operators need, and keys of the running processes. */
function operatorKeys(prefix: string) {
  return {
    /** String: a block of the history, with a line for each injected call (shared/call-search/history). */
    historyBlock: (id: string) => `${prefix}:history:${id}`,
    /** Sorted set: the blocks of the history, as `<calls> <bytes> <id>`, by their newest time. */
    history: `${prefix}:history`,
    /** Hash: the number of calls and bytes in the history. */
    historySize: `${prefix}:history:size`,
    /** Sorted set: calls that were forgotten recently, so that no producer writes them to the history. */
    historyForgotten: `${prefix}:history:forgotten`,
    /** String: the gateway that evicts the history. While this key exists, no history is kept (shared/ingress/evict.ts). */
    historyOff: `${prefix}:history-off`,
    /** String: the newest follower of the events, while there is one (shared/telemetry/events). */
    followed: `${prefix}:followed`,
    /** Channel: the events, while there is a follower. They are not stored. */
    events: `${prefix}:events`,
    /** Hash: the counts of all processes in a span of time, by subject (shared/telemetry/series). */
    series: (step: string, start: number) => `${prefix}:series:${step}:${start}`,
    /** Hash: payments of a day and their amounts, by token and job. */
    earned: (day: string) => `${prefix}:earned:${day}`,
    /** Hash: the payments of a day that the chain contradicts, and their amounts, by token and job. */
    disputed: (day: string) => `${prefix}:disputed:${day}`,
    /** Hash: refunds of a day and their amounts, by token and job. */
    refunded: (day: string) => `${prefix}:refunded:${day}`,
    /** Hash: a running process, or a part of one, while it reports (shared/telemetry/processes). */
    process: (id: string) => `${prefix}:process:${id}`,
    /** Sorted set: the running processes, by the time of their last report. */
    processes: `${prefix}:processes`,
    /** String: the number of times that operators have asked all processes to read their configuration again. */
    reloads: `${prefix}:reloads`,
    /** Sorted set: the ids of the workers, by the time of their last heartbeat. */
    workers: `${prefix}:workers`,
    /** Hash: a bulk operation, which outlives the operator's request (shared/console/runs). */
    run: (id: string) => `${prefix}:run:${id}`,
    /** Sorted set: the bulk operations, by the time they were started. */
    runs: `${prefix}:runs`,
    /** Sorted set: the bulk operations that have not ended, by the time from which any console process may take them. */
    openRuns: `${prefix}:runs:open`,
    /** String: exists while an operator's session that was ended early would still be valid. */
    endedSession: (id: string) => `${prefix}:ended-session:${id}`,
    /**
     * Stream: the audit log: `acts`; the `repeats` of a loop or bulk operation; `money`; and `reads` of bodies and results
     * (shared/redis/audit).
     */
    audit: (stream: "acts" | "repeats" | "money" | "reads") => `${prefix}:audit:${stream}`,
    /** String: the number of lines of this action that an operator has caused in a day. */
    auditCount: (action: string, name: string) => `${prefix}:audit:count:${action}:${name}`,
    /** String: a salt that the signature of each operator's session covers (services/console/auth). */
    sessionSalt: `${prefix}:session-salt`,
  } as const;
}

/** Returns the beginning of every key of a deployment's runners. No name of a deployment ends with `-runner`. */
export function runnerPrefixOf(name: string): string {
  return prefixOf(`${name}-runner`);
}

/**
 * Keys of the runners on one Redis, which may differ from the gateways' Redis. services/runner/call-store.ts lists the
 * fields of the hashes.
 */
export type RunnerKeys = ReturnType<typeof runnerKeysOf>;

export function runnerKeysOf(prefix: string) {
  return {
    /** String: the layout of these keys, and the release that wrote it (shared/redis/layout.ts). */
    layout: `${prefix}:layout`,
    /** Hash: a remembered call, by its Idempotency-Key. */
    call: (idempotencyKey: string) => `${prefix}:call:${idempotencyKey}`,
    /**
     * Sorted set: the calls that the runner lists, by the time until which it lists them; +inf for long calls that are not
     * DONE.
     */
    calls: `${prefix}:calls`,
    /**
     * Sorted set: long calls, by the time when a runner must take them up. A waiting call is due at once, or when the pause
     * before its next run ends. A running call is due when its lease ends, because its runner has probably died then.
     */
    due: `${prefix}:due`,
    /** String: the answer of a call, while it is kept (services/runner/remembered-answer.ts). */
    answer: (idempotencyKey: string) => `${prefix}:answer:${idempotencyKey}`,
    /** Sorted set: the kept answers, as `<bytes> <key>`, by expiry. */
    answers: `${prefix}:answers`,
    /** String: the total size of the kept answers. */
    answersBytes: `${prefix}:answers:bytes`,
    /** Hash: the result of a long call that no gateway has accepted yet (services/runner/delivery-store.ts). */
    delivery: (idempotencyKey: string) => `${prefix}:delivery:${idempotencyKey}`,
    /** Sorted set: the results to deliver, by due time. */
    deliveries: `${prefix}:deliveries`,
  } as const;
}
