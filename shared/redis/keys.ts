/*
 * All keys in Redis, of all processes, with their types. The rest of a queue's protocol is in shared/queue/protocol.ts. The
 * text in braces at the beginning of a key is its hash tag: a Redis Cluster keeps all keys with the same hash tag in one
 * slot.
 */

/** Name of a deployment that has no name in its configuration. */
export const DEFAULT_NAME = "postern";

/** Returns the beginning of every key and channel of the deployment with this name, except the runner's keys. */
export function prefixOf(name: string): string {
  return `{${name}}`;
}

export const PREFIX = prefixOf(DEFAULT_NAME);

/** String: a mark that is written at the end of each batch that all replicas must confirm (replicated-writes.ts). */
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

/** Keys of the queues of calls, and of the jobs that the calls are for. */
function queueKeys(prefix: string) {
  return {
    /** String: the version of this layout, and the release that wrote it (shared/redis/layout.ts). */
    layout: `${prefix}:layout`,
    /** Hash: the deployment that owns this data, and the age of the data (shared/redis/deployment.ts). */
    deployment: `${prefix}:deployment`,
    /** Set, in partition 0: the indexes of the other partitions in use (shared/redis/deployment.ts). */
    partitions: `${prefix}:partitions`,
    /** Set: the names of all queues, also called the registry (shared/queue/queue-name.ts). */
    queues: `${prefix}:queues`,
    /**
     * BullMQ's keys of a queue. There is a queue for each origin and job. `name` is a list such as `wait`, or a call's id.
     * The hash of a failed call also has a field of Postern, `head` (shared/queue/failed-head.ts).
     */
    inQueue: (queue: string, name: string) => `${prefix}:${queue}:${name}`,
    /** Sorted set: queues with calls that may be taken now. An idle producer waits until a name is added to it. */
    wake: `${prefix}:wake`,
    /**
     * Sorted set: queues that a producer must check again, by the time of the check. For example, a delay ends then
     * (shared/queue/frame.lua).
     */
    due: `${prefix}:due`,
    /** Set: queues with calls in flight. A producer searches these queues for calls whose worker has died. */
    active: `${prefix}:active`,
    /**
     * String, in partition 0: the worker that may now take a call alone, which means that it works on no other call at that
     * time. Calls during which several processes have died are taken alone, so that the death of a worker harms no other
     * call.
     */
    alone: `${prefix}:alone`,
    /** Hash: the stored size in bytes of the calls of each queue, including failed ones. */
    bytes: `${prefix}:bytes`,
    /**
     * String: the number and size of the calls in all queues of an origin, cached for half a second for the gateways
     * (shared/queue/depth.ts).
     */
    depth: (origin: string) => `${prefix}:depth:${origin}`,
    /** Set: jobs that have settings or are paused. */
    jobs: `${prefix}:jobs`,
    /**
     * String: the time when a producer last stored the configured limits of the jobs. If it is missing, Redis has lost its
     * data, and the limits must be stored again.
     */
    configured: `${prefix}:configured`,
    /**
     * Hash: a gate, which decides whether calls may be taken (shared/queue/jobs.ts). It is named `<service id>/<job index>`
     * for a job, `callback/<receiver>` for one receiver of callbacks, and `callback` for all receivers.
     */
    job: (gate: string) => `${prefix}:job:${gate}`,
    /** Set: the names of the queues with callbacks to this receiver. Each job has its own queue. */
    receiver: (receiver: string) => `${prefix}:receiver:${receiver}`,
    /**
     * Sorted set: the public keys with which receivers verify callbacks, by the time when a producer last published them
     * (shared/telemetry/processes/callback-keys.ts).
     */
    callbackKeys: `${prefix}:callback-keys`,
    /**
     * Sorted set: the callback queues of receivers that requests have named, by the time of the last such request. It has
     * only receivers that a wildcard in `callback_hosts` allows, because their number must be limited
     * (shared/ingress/named-receivers.ts).
     */
    allNamedReceivers: `${prefix}:named-receivers`,
    /**
     * Sorted set: the queues in `allNamedReceivers` that were named in requests to one endpoint (`endpoint:<path>`) or by one
     * payer (`payer:<address>`).
     */
    namedReceivers: (party: string) => `${prefix}:named-receivers:${party}`,
    /**
     * String: the number of calls of a job with a `rate` that producers have taken in the current period. It expires with the
     * period.
     */
    taken: (job: string) => `${prefix}:taken:${job}`,
    /**
     * Hash, in partition 0: the limits of a job (`concurrency`, `max` and `duration`), which apply to all partitions
     * together. If there is only one partition, they are stored in the job's gate instead.
     */
    limits: (job: string) => `${prefix}:limits:${job}`,
    /**
     * Sorted set, in partition 0: the permits of a job with limits, by expiry. With several partitions, a worker needs a
     * permit to take a call of such a job (services/producer/consumer/permits.ts).
     */
    permits: (job: string) => `${prefix}:permits:${job}`,
    /**
     * Sorted set, in partition 0: the queues that wait for a permit, as `<partition> <queue>`, by the time when they began to
     * wait.
     */
    permitWaiters: (job: string) => `${prefix}:permit-waiters:${job}`,
    /**
     * Hash about the operators' intents: the pauses of jobs and the states of endpoints (shared/queue/intents.ts). `version`
     * counts their changes. Each other partition has a copy of the intents of partition 0, with the `version` that was
     * copied last. In `left`, such a partition notes whether held calls of enabled endpoints still have to be released.
     */
    intents: `${prefix}:intents`,
    /** Hash: the operators' settings of endpoints, as JSON, by path (shared/queue/endpoints.ts). */
    endpoints: `${prefix}:endpoints`,
    /** List: tests of endpoints that operators have ordered, as JSON (shared/ingress/endpoint-tests.ts). */
    endpointTests: `${prefix}:tests`,
    /** String: the outcome of a test of an endpoint, as JSON. */
    endpointTest: (id: string) => `${prefix}:test:${id}`,
    /**
     * List: the calls that an endpoint holds, as `<queue> <id>`, oldest first. BullMQ has them among the delayed calls of
     * their queues.
     */
    heldCalls: (path: string) => `${prefix}:held:${path}`,
    /** Hash: for each job, the time (unix ms) when its last pause, or the last hold of its endpoint, ended. */
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
    /** String: the newest progress message of the runner about a long call, as JSON. */
    progress: (callId: string) => `${prefix}:result:${callId}:progress`,
    /**
     * Sorted set: the kept results and progress messages, as `<bytes> <id>`, by expiry. `<id>` is the part of the value's key
     * after `:result:`.
     */
    results: `${prefix}:results`,
    /** String: the total size of the kept results and progress messages. */
    resultsBytes: `${prefix}:results:bytes`,
    /** String: the gateway that is evicting results because Redis is nearly full. While this key exists, no result is kept. */
    resultsOff: `${prefix}:results-off`,
    /** String: a delivered webhook with its body, while it is kept so that it can be replayed (shared/call/kept). */
    kept: (callId: string) => `${prefix}:kept:${callId}`,
    /** Sorted set: the kept webhooks of an endpoint, as `<bytes> <id>`, by expiry. */
    keptOf: (path: string) => `${prefix}:kept-of:${path}`,
    /** String: the total size of an endpoint's kept webhooks. */
    keptBytes: (path: string) => `${prefix}:kept-bytes:${path}`,
    /** Set: the paths of the endpoints with kept webhooks. */
    keptEndpoints: `${prefix}:kept-endpoints`,
    /**
     * String: the gateway that is evicting kept webhooks because Redis is nearly full. While this key exists, no further
     * webhook is kept.
     */
    keptOff: `${prefix}:kept-off`,
    /**
     * A channel, not a key. The ids of calls whose state, progress or result has changed are published on it
     * (shared/call/results/changes.ts).
     */
    changes: `${prefix}:changes`,
    /**
     * Sorted set: the calls of a queue that have failed at least once or were replayed, by the time when they began to wait.
     */
    since: (queue: string) => `${prefix}:since:${queue}`,
  } as const;
}

/** Keys of payments and refunds, and of things that can be used only once: quotes, nonces and identifiers. */
function paymentKeys(prefix: string) {
  return {
    /** Hash: the payment of a paid call (shared/payments). */
    payment: (callId: string) => `${prefix}:payment:${callId}`,
    /** Sorted set: every payment, by the time it was claimed. */
    payments: `${prefix}:payments`,
    /** Sorted set: payments that the reconciler must check, by due time. */
    paymentsDue: `${prefix}:payments:due`,
    /**
     * String: the time (unix ms) when a payment gateway began to drain this Redis before an upgrade. While this key exists,
     * no payment is claimed.
     */
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
    /**
     * Hash: the size of each payment that is SETTLING or in REVIEW and still has its body, by id, with the rate-limit keys of
     * its client. A value is JSON: `[bytes, client, ...]` (shared/payments/usage.lua).
     */
    paymentsUsage: `${prefix}:payments:usage`,
    /**
     * Hash: the sums of the bytes in `paymentsUsage`. There is one for each rate-limit key of a client, and `*` for all
     * payments.
     */
    paymentsUsageBy: `${prefix}:payments:usage:by`,
    /** Sorted set: payments that were refused because their authorization was already used or cancelled, by time. */
    spentElsewhere: `${prefix}:payments:spent`,
    /** Hash: details of each payment in `spentElsewhere`. */
    spentElsewhereOf: `${prefix}:payments:spent:of`,
    /**
     * String: the id of the call that this transfer on the chain pays for. `position` is that of the transfer's event in the
     * transaction's receipt.
     */
    paidTransfer: (network: string, transaction: string, position: number) =>
      `${prefix}:transfer:${network}:${transaction}:${position}`,
    /** Hash: an export of refunds. */
    refund: (exportId: string) => `${prefix}:refund:${exportId}`,
    /** List: the rows of an export of refunds, as JSON. */
    refundRows: (exportId: string) => `${prefix}:refund:${exportId}:rows`,
    /** Sorted set: calls whose refund is exported, but was not yet seen on the chain, by the time of the export. */
    refundsPending: `${prefix}:refunds`,
    /** String: the id of the call that this transfer has refunded. The key never expires. */
    refundTransfer: (network: string, transaction: string, position: number) =>
      `${prefix}:refund-transfer:${network}:${transaction}:${position}`,
    /**
     * Hash: the call that this payer paid for under `identifier`. There are three kinds. A client's payment identifier is
     * used as it is, also if the client sent it as an idempotency key. Any other idempotency key becomes `key:` and its
     * SHA-256. A payment of version 1 gets `v1:` and a SHA-256. A payment identifier has no colon, so the three kinds differ.
     */
    paymentIdentifier: (payer: string, identifier: string) => `${prefix}:payment-id:${payer}:${identifier}`,
    /** String: the id of the call whose payment has used up a quote of the operator. */
    usedQuote: (digest: string) => `${prefix}:quote:${digest}`,
    /** String: the id of the call whose payment has used up a caller's nonce. */
    callerNonce: (hash: string) => `${prefix}:caller-nonce:${hash}`,
    /**
     * String: exists once the nonce of a payer's sign-in was used, as long as that nonce is valid. So the sign-in cannot be
     * used again.
     */
    usedSignIn: (nonce: string) => `${prefix}:sign-in:${nonce}`,
    /** Hash: the quotes for which a proof of work was used (services/pricing). */
    pricingProof: (hash: string) => `${prefix}:pricing:proof:${hash}`,
    /** Hash: the last valid value that a source of a price rate returned (shared/pricing/rates). */
    rate: (identity: string) => `${prefix}:rate:${identity}`,
    /** Hash: the rates of a token in the last hour and day (shared/pricing/rates/history.ts). */
    rateHistory: (network: string, asset: string) => `${prefix}:rate-history:${network}/${asset}`,
  } as const;
}

/**
 * Keys that gateways use for their rate limits, for the requests that they have refused, and for endpoints that an operator
 * has opened.
 */
function gatewayKeys(prefix: string) {
  return {
    /** String: the token bucket of an endpoint (services/webhooks-gateway/rate-limit.ts). */
    limitOfEndpoint: (path: string) => `${prefix}:limit:endpoint:${path}`,
    /** String: the token bucket of a client address at an endpoint. */
    limitOfAddress: (path: string, address: string) => `${prefix}:limit:address:${address} ${path}`,
    /** String: the token bucket that limits how many requests with refused credentials come from a client address. */
    limitOfRefusals: (address: string) => `${prefix}:limit:refusals:${address}`,
    /** Sorted set: the last refused requests of an endpoint, or of `unknown` paths, by time. */
    rejected: (path: string) => `${prefix}:rejected:${path}`,
    /** Hash: the size of the refused requests, by path (shared/telemetry/rejected). */
    rejectedBytes: `${prefix}:rejected`,
    /**
     * Hash: exists while an endpoint is open, which means that a sender can hand over its secret in a handshake. Once a
     * sender has done so, the hash holds the secret until an operator's command shows it
     * (shared/ingress/opened-endpoints.ts).
     */
    opened: (path: string) => `${prefix}:opened:${path}`,
  } as const;
}

/** Keys that only operators' commands and the console need, and keys of the running processes. */
function operatorKeys(prefix: string) {
  return {
    /** String: a block of the history, with a line for each injected call (shared/call-search/history). */
    historyBlock: (id: string) => `${prefix}:history:${id}`,
    /** Sorted set: the blocks of the history, as `<calls> <bytes> <id>`, by their newest time. */
    history: `${prefix}:history`,
    /** Hash: the number of calls and bytes in the history. */
    historySize: `${prefix}:history:size`,
    /**
     * Sorted set: calls that an operator has recently forgotten (all data from their sender is deleted). Producers check it,
     * so that none of them writes such a call to the history.
     */
    historyForgotten: `${prefix}:history:forgotten`,
    /**
     * String: the gateway that is evicting the history because Redis is nearly full. While this key exists, no history is
     * kept (shared/ingress/evict.ts).
     */
    historyOff: `${prefix}:history-off`,
    /**
     * String: the id of the newest follower, which is a process that reads the events of all others. It exists while there is
     * one (shared/telemetry/events).
     */
    followed: `${prefix}:followed`,
    /** Channel: the events of all processes. They are published only while there is a follower, and are not stored. */
    events: `${prefix}:events`,
    /** Hash: the counts of all processes in a span of time, by subject (shared/telemetry/series). */
    series: (step: string, start: number) => `${prefix}:series:${step}:${start}`,
    /** Hash: the number of payments on a day and their amounts, by token and job. */
    earned: (day: string) => `${prefix}:earned:${day}`,
    /** Hash: the number of payments of a day that the chain contradicts, and their amounts, by token and job. */
    disputed: (day: string) => `${prefix}:disputed:${day}`,
    /** Hash: the number of refunds on a day and their amounts, by token and job. */
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
    /**
     * Sorted set: the bulk operations that have not ended, by the time from which any console process may take them. This is
     * when they are started, and later when the lease of the process that runs them ends.
     */
    openRuns: `${prefix}:runs:open`,
    /**
     * String: exists once an operator's session was ended early, until the session would have expired by itself. Requests
     * with its cookie are refused because of this key.
     */
    endedSession: (id: string) => `${prefix}:ended-session:${id}`,
    /**
     * Stream: a part of the audit log (shared/redis/audit). `acts` has the acts of operators, and `repeats` their many
     * similar acts in a loop or bulk operation. `money` has decisions on payments, and `reads` has reads of bodies and
     * results.
     */
    audit: (stream: "acts" | "repeats" | "money" | "reads") => `${prefix}:audit:${stream}`,
    /** String: the number of audit lines in a day for this action by this operator. */
    auditCount: (action: string, name: string) => `${prefix}:audit:count:${action}:${name}`,
    /** String: a random salt, which is part of the signed data of each operator's session (services/console/auth). */
    sessionSalt: `${prefix}:session-salt`,
  } as const;
}

/**
 * Returns the beginning of every key of a deployment's runners. It cannot be the prefix of another deployment, because no
 * deployment's name may end with `-runner`.
 */
export function runnerPrefixOf(name: string): string {
  return prefixOf(`${name}-runner`);
}

/**
 * Keys of the runners that use one Redis. It may be a different Redis from that of the gateways.
 * services/runner/call-store.ts lists the fields of the hashes.
 */
export type RunnerKeys = ReturnType<typeof runnerKeysOf>;

export function runnerKeysOf(prefix: string) {
  return {
    /** String: the layout of these keys, and the release that wrote it (shared/redis/layout.ts). */
    layout: `${prefix}:layout`,
    /** Hash: a remembered call, by its Idempotency-Key. */
    call: (idempotencyKey: string) => `${prefix}:call:${idempotencyKey}`,
    /**
     * Sorted set: the calls that the runner lists, by the time until which it lists them. Long calls that are not DONE have
     * the score +inf.
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
