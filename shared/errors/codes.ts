type Entry = {
  /** The HTTP status of our answer. */
  readonly status: number;
  /** Whether the same attempt may succeed later. The producer retries by this alone. */
  readonly retryable: boolean;
  readonly title: string;
};

/** Every failure of Postern. A code never changes its name; the documentation lists them all, and a test compares. */
export const CODES = {
  // what a sender did
  "request.malformed": { status: 400, retryable: false, title: "Request is malformed" },
  "request.not_found": { status: 404, retryable: false, title: "Nothing at this path" },
  "request.method_not_allowed": { status: 405, retryable: false, title: "Method is not allowed here" },
  "request.timed_out": { status: 408, retryable: true, title: "Request did not arrive in time" },
  "request.too_large": { status: 413, retryable: false, title: "Body is over the limit" },
  "request.encoding_unsupported": {
    status: 415,
    retryable: false,
    title: "Content-Encoding is not accepted",
  },
  "request.media_type_unsupported": {
    status: 415,
    retryable: false,
    title: "Content-Type is not accepted",
  },
  "request.input_invalid": {
    status: 422,
    retryable: false,
    title: "Body does not fit the job's input schema",
  },
  "request.encoding_broken": { status: 400, retryable: false, title: "Body does not decode" },
  "request.transfer_coding_unsupported": {
    status: 501,
    retryable: false,
    title: "Transfer-Encoding is not understood",
  },
  "request.headers_too_large": { status: 431, retryable: false, title: "Headers are over the limit" },
  "request.expectation_failed": { status: 417, retryable: false, title: "Expectation cannot be met" },
  "request.rate_limited": { status: 429, retryable: true, title: "Too many requests" },
  "request.over_budget": {
    status: 503,
    retryable: true,
    title: "Too much of unproven requests is in flight",
  },
  "request.address_refused": { status: 403, retryable: false, title: "Address is not allowed here" },
  "webhook.credential_rejected": { status: 401, retryable: false, title: "Credential is not valid" },
  "webhook.delivery_id_invalid": { status: 400, retryable: false, title: "Delivery id is not usable" },
  "webhook.metadata_invalid": {
    status: 400,
    retryable: false,
    title: "A value for the runner is not usable",
  },
  "webhook.event_unrouted": { status: 404, retryable: false, title: "No job for this event" },
  "webhook.handshake_refused": { status: 403, retryable: false, title: "Handshake is refused" },
  "call.conflict": { status: 409, retryable: false, title: "Delivery id was used for another body" },
  "callback.refused": { status: 403, retryable: false, title: "Callback is not sent there" },

  // what a payer did
  "job.not_found": { status: 404, retryable: false, title: "Job not found" },
  "job.disabled": { status: 403, retryable: false, title: "Job is not sold" },
  "payment.required": { status: 402, retryable: false, title: "Payment is required" },
  "payment.ambiguous": { status: 400, retryable: false, title: "Two payment headers were sent" },
  "payment.malformed": { status: 402, retryable: false, title: "Payment header is malformed" },
  "payment.not_offered": {
    status: 402,
    retryable: false,
    title: "Payment does not match an offer of this job",
  },
  "payment.network_not_offered": {
    status: 400,
    retryable: false,
    title: "No token is taken on this network",
  },
  "payment.quote_expired": { status: 402, retryable: false, title: "Quote has expired" },
  "payment.window_unusable": {
    status: 402,
    retryable: false,
    title: "Authorization's time window cannot be used",
  },
  "payment.signature_invalid": { status: 402, retryable: false, title: "Payment's signature is not valid" },
  "payment.rejected": { status: 402, retryable: false, title: "Payment cannot be settled" },
  "payment.allowance_required": {
    status: 412,
    retryable: false,
    title: "Payer has not approved Permit2",
  },
  "payment.void": { status: 402, retryable: false, title: "This payment did not happen and cannot any more" },
  "payment.spent_elsewhere": {
    status: 409,
    retryable: false,
    title: "Payment was used up before it came here",
  },
  "payment.conflict": { status: 409, retryable: false, title: "Payment was used for another request" },
  "payment.identifier_conflict": {
    status: 409,
    retryable: false,
    title: "Payment identifier was used for another request",
  },
  "payment.too_many_open": { status: 429, retryable: true, title: "Payer has too many open payments" },
  "payment.too_many_unsettled": {
    status: 429,
    retryable: true,
    title: "Too many payments from this address are not settled yet",
  },
  "quote.malformed": { status: 400, retryable: false, title: "Quote is malformed" },
  "quote.rejected": { status: 403, retryable: false, title: "Quote is not honoured for this request" },
  "quote.expired": { status: 410, retryable: false, title: "Quote has expired" },
  "quote.used": { status: 409, retryable: false, title: "Quote was used by another payment" },
  "caller.missing": { status: 403, retryable: false, title: "Caller's proof is missing" },
  "caller.proof_invalid": { status: 403, retryable: false, title: "Caller's proof is not valid" },
  "caller.not_permitted": { status: 403, retryable: false, title: "Caller is not permitted" },
  "caller.nonce_used": { status: 403, retryable: false, title: "Caller's nonce was used before" },

  // what the payment gateway cannot do now
  "caller.check_unavailable": {
    status: 503,
    retryable: true,
    title: "Whether the caller is permitted cannot be asked",
  },
  "payment.outcome_unknown": {
    status: 503,
    retryable: true,
    title: "Whether the payment settled is unknown",
  },
  "payment.in_review": { status: 503, retryable: true, title: "Payment is in review" },
  "payment.unavailable": { status: 503, retryable: true, title: "Payments cannot be taken now" },
  "price.unavailable": { status: 503, retryable: true, title: "No token can be paid with now" },

  // what a pricing engine answers
  "pricing.request_invalid": { status: 400, retryable: false, title: "Request for a price is not valid" },
  "pricing.tee_unavailable": {
    status: 503,
    retryable: false,
    title: "Trusted execution environment is not available",
  },
  "pricing.unavailable": { status: 503, retryable: true, title: "Quotes cannot be given now" },

  // what the gateway cannot do now
  "service.starting": { status: 503, retryable: true, title: "Service is starting" },
  "service.draining": { status: 503, retryable: true, title: "Service is shutting down" },
  "queue.unavailable": { status: 503, retryable: true, title: "Queue is unavailable" },
  "queue.denied": { status: 503, retryable: true, title: "Redis denies this process what it needs" },
  "queue.not_durable": { status: 503, retryable: true, title: "Queue cannot keep its promise" },
  "queue.outcome_unknown": { status: 503, retryable: true, title: "Whether the call was queued is unknown" },
  "record.unreadable": { status: 503, retryable: true, title: "What is stored of this call cannot be read" },
  "record.newer": { status: 503, retryable: true, title: "A later release has this; send the same again" },
  "queue.overloaded": { status: 503, retryable: true, title: "Queue is over its limits" },
  "request.body_consumed": { status: 500, retryable: false, title: "Body was read before it came here" },
  "internal.unexpected": { status: 500, retryable: true, title: "Unexpected failure" },

  // what who asks for a result is told
  "result.pending": { status: 404, retryable: true, title: "The call has no result yet" },
  "result.none_kept": { status: 404, retryable: false, title: "No result of this call is kept" },
  "result.gone": { status: 410, retryable: false, title: "The result is not kept any more" },
  "result.call_failed": { status: 502, retryable: false, title: "The call failed for good" },
  "result.proof_required": {
    status: 401,
    retryable: false,
    title: "The result is only for who has its token",
  },
  "result.sign_in_required": {
    status: 402,
    retryable: false,
    title: "The result is only for who has paid for it",
  },
  "result.sign_in_unavailable": {
    status: 503,
    retryable: true,
    title: "Whether the payer has signed in cannot be asked",
  },

  // what a runner is told that delivers a result
  "result.conflict": { status: 409, retryable: false, title: "Another result was delivered before" },
  "result.too_late": { status: 409, retryable: false, title: "The call takes no result any more" },

  // what the producer met
  "runner.unreachable": { status: 502, retryable: true, title: "Runner could not be reached" },
  "runner.disconnected": { status: 502, retryable: true, title: "Connection to the runner broke" },
  "runner.timed_out": { status: 504, retryable: true, title: "Runner did not answer in time" },
  "runner.answer_broken": { status: 502, retryable: true, title: "The runner's answer broke off" },
  "runner.failed": { status: 502, retryable: true, title: "Runner answered with a failure" },
  "runner.throttled": { status: 429, retryable: true, title: "Runner asked to slow down" },
  "runner.busy": { status: 409, retryable: true, title: "Runner is still running this call" },
  "runner.refused": { status: 502, retryable: false, title: "Runner refused the call" },
  "call.newer": { status: 500, retryable: true, title: "Stored call is of a newer release" },
  "call.poison_pill": { status: 500, retryable: false, title: "Processes ended with the call in hand" },
  "call.corrupt": { status: 500, retryable: false, title: "Stored call does not parse or its hash differs" },

  // what the producer met at the receiver of a callback
  "callback.unanswered": { status: 504, retryable: true, title: "Receiver did not answer" },
  "callback.failed": { status: 502, retryable: true, title: "Receiver answered with a failure" },
  "callback.gone": { status: 502, retryable: false, title: "Receiver wants no more callbacks" },
  "callback.address_forbidden": {
    status: 502,
    retryable: false,
    title: "Receiver's address is not one that is called",
  },

  // what the reference runner answers
  "runner.signature_rejected": { status: 401, retryable: false, title: "Request signature is not valid" },
  "runner.job_unknown": { status: 404, retryable: false, title: "No such job" },
  "runner.input_rejected": { status: 422, retryable: false, title: "The job does not accept this input" },
  "runner.key_missing": { status: 400, retryable: false, title: "Idempotency-Key is missing or malformed" },
  "runner.key_reused": {
    status: 422,
    retryable: false,
    title: "Idempotency-Key was used for another request",
  },
  "runner.store_unavailable": { status: 503, retryable: true, title: "Runner's store is unavailable" },
  "runner.handler_failed": { status: 500, retryable: true, title: "The job failed" },

  // what an operator is told of a call
  "call.unknown": { status: 404, retryable: false, title: "Nothing is known of this call" },
  "call.in_hand": { status: 409, retryable: true, title: "The call waits, or is in hand" },
  "call.undecided": {
    status: 409,
    retryable: true,
    title: "Whether the call's payment happened is not decided",
  },
  "call.not_failed": { status: 409, retryable: false, title: "The call is not among the failed ones" },
  "call.too_old": {
    status: 409,
    retryable: false,
    title: "The runner may have forgotten the call's key",
  },
  "call.forgotten": { status: 410, retryable: false, title: "The call was forgotten" },
  "call.no_body": { status: 404, retryable: false, title: "The call's body is not kept" },
  "call.no_result": { status: 404, retryable: false, title: "The call has no result that is kept" },

  // what the operator's service answers
  "operator.unauthorized": { status: 401, retryable: false, title: "No token or session that is known here" },
  "operator.forbidden": { status: 403, retryable: false, title: "This role may look, and change nothing" },
  "operator.cross_site": { status: 403, retryable: false, title: "Request comes from another site" },
  "operator.host_unknown": { status: 421, retryable: false, title: "Nobody is served under this host" },
  "payment.unknown": { status: 404, retryable: false, title: "There is no such payment" },
  "payment.undecidable": {
    status: 409,
    retryable: false,
    title: "Nothing is to be decided about this payment",
  },
  "payment.not_shown": { status: 409, retryable: false, title: "The chain does not show this payment" },
  "payment.transfer_taken": { status: 409, retryable: false, title: "This transfer pays for another call" },
  "token.unconfigured": { status: 409, retryable: false, title: "The token's chain cannot be asked here" },
  "rejected.unknown": { status: 404, retryable: false, title: "There is no such refused request" },
  "rejected.ambiguous": { status: 409, retryable: false, title: "Several refused requests have such an id" },
  "rejected.no_body": { status: 404, retryable: false, title: "The refused request's body was not kept" },
  "refund.unknown": { status: 404, retryable: false, title: "There is no such export of refunds" },
  "run.unknown": { status: 404, retryable: false, title: "There is no such run" },
  "run.not_resumable": { status: 409, retryable: false, title: "The run cannot go on" },
  "run.too_many": { status: 429, retryable: true, title: "Too many runs are open" },

  // what ends a command
  "command.invalid": { status: 500, retryable: false, title: "Command line is not valid" },
  "command.failed": { status: 500, retryable: false, title: "Command has not done all that was asked" },

  // what stops a start
  "start.config_invalid": { status: 500, retryable: false, title: "Configuration is not valid" },
  "start.redis_not_durable": {
    status: 500,
    retryable: false,
    title: "Redis cannot keep what a 202 promises",
  },
  "start.redis_denied": {
    status: 500,
    retryable: false,
    title: "Redis denies this process what it needs",
  },
  "start.layout_mismatch": {
    status: 500,
    retryable: false,
    title: "Redis holds the data of another release",
  },
  "start.program_missing": {
    status: 500,
    retryable: false,
    title: "A program that is needed is not installed",
  },
  "start.package_missing": {
    status: 500,
    retryable: false,
    title: "A package that is needed is not installed",
  },
  "start.part_ended": { status: 500, retryable: false, title: "A process that was started ended by itself" },
  "start.address_unavailable": { status: 500, retryable: false, title: "Address cannot be listened on" },
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof CODES;

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(CODES, text);
}
