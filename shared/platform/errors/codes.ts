type Entry = {
  /** HTTP status of the answer to a request that fails with this error. */
  readonly status: number;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  readonly title: string;
};

const DELIVERY_CODES = {
  // Runner errors, seen by the producer
  "runner.unreachable": { status: 502, retryable: true, title: "Runner could not be reached" },
  "runner.disconnected": { status: 502, retryable: true, title: "Connection to the runner broke" },
  "runner.timed_out": { status: 504, retryable: true, title: "Runner did not answer in time" },
  "runner.answer_broken": { status: 502, retryable: true, title: "Runner's answer was cut off" },
  "runner.failed": { status: 502, retryable: true, title: "Runner answered with an error" },
  "runner.throttled": { status: 429, retryable: true, title: "Runner is rate limiting" },
  "runner.busy": { status: 409, retryable: true, title: "Runner is still running this call" },
  "runner.refused": { status: 502, retryable: false, title: "Runner refused the call" },
  "call.poison_pill": { status: 500, retryable: false, title: "Producers ended during the call" },
  "call.corrupt": { status: 500, retryable: false, title: "Stored call is corrupt" },

  // Callback receiver errors, seen by the producer
  "callback.unanswered": { status: 504, retryable: true, title: "Receiver did not answer" },
  "callback.failed": { status: 502, retryable: true, title: "Receiver answered with an error" },
  "callback.gone": { status: 502, retryable: false, title: "Receiver is gone" },
  "callback.address_forbidden": {
    status: 502,
    retryable: false,
    title: "Receiver address is not allowed",
  },
} as const satisfies Record<string, Entry>;

/**
 * All errors of Postern. A code never changes its name. The documentation lists all codes, and a test compares both.
 */
export const CODES = {
  // errors in any request to a server of Postern, and in a webhook
  "request.malformed": { status: 400, retryable: false, title: "Request is malformed" },
  "request.not_found": { status: 404, retryable: false, title: "No such path" },
  "request.method_not_allowed": { status: 405, retryable: false, title: "Method is not allowed" },
  "request.timed_out": { status: 408, retryable: true, title: "Request did not arrive in time" },
  "request.too_large": { status: 413, retryable: false, title: "Body is too large" },
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
    title: "Body does not match the job's input schema",
  },
  "request.encoding_broken": { status: 400, retryable: false, title: "Body cannot be decoded" },
  "request.transfer_coding_unsupported": {
    status: 501,
    retryable: false,
    title: "Transfer-Encoding is not supported",
  },
  "request.headers_too_large": { status: 431, retryable: false, title: "Headers are too large" },
  "request.expectation_failed": { status: 417, retryable: false, title: "Expect header cannot be met" },
  "request.rate_limited": { status: 429, retryable: true, title: "Too many requests" },
  "request.over_budget": {
    status: 503,
    retryable: true,
    title: "Too many unverified requests are in flight",
  },
  "request.address_refused": { status: 403, retryable: false, title: "Client address is not allowed" },
  "webhook.credential_rejected": { status: 401, retryable: false, title: "Credential is not valid" },
  "webhook.delivery_id_invalid": { status: 400, retryable: false, title: "Delivery id is not valid" },
  "webhook.metadata_invalid": {
    status: 400,
    retryable: false,
    title: "A forwarded header or query is not valid",
  },
  "webhook.event_unrouted": { status: 404, retryable: false, title: "No job handles this event" },
  "webhook.handshake_refused": { status: 403, retryable: false, title: "Handshake was refused" },
  "call.conflict": { status: 409, retryable: false, title: "Delivery id was used with another body" },
  "callback.refused": { status: 403, retryable: false, title: "Callback URL is not allowed" },

  // errors in a buyer's request
  "job.not_found": { status: 404, retryable: false, title: "Job not found" },
  "job.disabled": { status: 403, retryable: false, title: "Job is disabled" },
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
    title: "No token is accepted on this network",
  },
  "payment.quote_expired": { status: 402, retryable: false, title: "Quote has expired" },
  "payment.window_unusable": {
    status: 402,
    retryable: false,
    title: "Authorization's time window is not accepted",
  },
  "payment.signature_invalid": { status: 402, retryable: false, title: "Payment signature is not valid" },
  "payment.rejected": { status: 402, retryable: false, title: "Payment cannot be settled" },
  "payment.allowance_required": {
    status: 412,
    retryable: false,
    title: "Payer has not approved Permit2",
  },
  "payment.void": { status: 402, retryable: false, title: "Payment was not made and can no longer be made" },
  "payment.spent_elsewhere": {
    status: 409,
    retryable: false,
    title: "Payment was already used or cancelled",
  },
  "payment.conflict": { status: 409, retryable: false, title: "Payment was used for another request" },
  "payment.identifier_conflict": {
    status: 409,
    retryable: false,
    title: "Payment identifier was used for another request",
  },
  "payment.idempotency_key_reused": {
    status: 422,
    retryable: false,
    title: "Idempotency-Key was used for another request",
  },
  "payment.too_many_open": { status: 429, retryable: true, title: "Payer has too many open payments" },
  "payment.too_many_unsettled": {
    status: 429,
    retryable: true,
    title: "Too many unsettled payments from this address",
  },
  "quote.malformed": { status: 400, retryable: false, title: "Quote is malformed" },
  "quote.rejected": { status: 403, retryable: false, title: "Quote does not apply to this request" },
  "quote.expired": { status: 410, retryable: false, title: "Quote has expired" },
  "quote.used": { status: 409, retryable: false, title: "Quote was used by another payment" },
  "caller.missing": { status: 403, retryable: false, title: "Caller proof is missing" },
  "caller.proof_invalid": { status: 403, retryable: false, title: "Caller proof is not valid" },
  "caller.not_permitted": { status: 403, retryable: false, title: "Caller is not permitted" },
  "caller.nonce_used": { status: 403, retryable: false, title: "Caller nonce was already used" },

  // temporary errors of the payment gateway
  "caller.check_unavailable": {
    status: 503,
    retryable: true,
    title: "Caller cannot be checked now",
  },
  "payment.outcome_unknown": {
    status: 503,
    retryable: true,
    title: "It is unknown whether the payment settled",
  },
  "payment.in_review": { status: 503, retryable: true, title: "Payment is in review" },
  "payment.unavailable": { status: 503, retryable: true, title: "Payments are unavailable" },
  "price.unavailable": { status: 503, retryable: true, title: "No price is available" },

  // errors of a pricing engine
  "pricing.request_invalid": { status: 400, retryable: false, title: "Price request is not valid" },
  "pricing.tee_unavailable": {
    status: 503,
    retryable: false,
    title: "No trusted execution environment",
  },
  "pricing.unavailable": { status: 503, retryable: true, title: "Quotes are unavailable" },

  // errors of the gateways and of the queue, most of them temporary
  "service.starting": { status: 503, retryable: true, title: "Service is starting" },
  "service.draining": { status: 503, retryable: true, title: "Service is shutting down" },
  "queue.unavailable": { status: 503, retryable: true, title: "Queue is unavailable" },
  "queue.denied": { status: 503, retryable: true, title: "Redis denies access" },
  "queue.not_durable": { status: 503, retryable: true, title: "Queue is not durable" },
  "queue.wrong_redis": {
    status: 503,
    retryable: true,
    title: "Redis does not hold this deployment's data",
  },
  "queue.outcome_unknown": {
    status: 503,
    retryable: true,
    title: "It is unknown whether the call was queued",
  },
  "record.unreadable": { status: 503, retryable: true, title: "Stored record cannot be read" },
  "webhook.filter_failed": { status: 503, retryable: true, title: "Filter of the endpoint failed" },
  "webhook.keys_unavailable": { status: 503, retryable: true, title: "Keys of the sender are unavailable" },
  "webhook.confirmation_failed": {
    status: 503,
    retryable: true,
    title: "Subscription could not be confirmed",
  },
  "webhook.endpoint_disabled": { status: 503, retryable: true, title: "Endpoint is disabled" },
  "queue.overloaded": { status: 503, retryable: true, title: "Queue is over its limits" },
  "request.body_consumed": { status: 500, retryable: false, title: "Body was already read" },
  "internal.unexpected": { status: 500, retryable: true, title: "Internal error" },

  // answers to a client that reads a result
  "result.pending": { status: 404, retryable: true, title: "The call has no result yet" },
  "result.none_kept": { status: 404, retryable: false, title: "The call keeps no result" },
  "result.gone": { status: 410, retryable: false, title: "The result is no longer kept" },
  "result.call_failed": { status: 502, retryable: false, title: "The call failed" },
  "result.proof_required": {
    status: 401,
    retryable: false,
    title: "A result token is required",
  },
  "result.sign_in_required": {
    status: 402,
    retryable: false,
    title: "A result token or the payer's sign-in is required",
  },
  "result.sign_in_unavailable": {
    status: 503,
    retryable: true,
    title: "The sign-in cannot be checked now",
  },

  // answers to a runner that delivers a result
  "result.conflict": { status: 409, retryable: false, title: "The call already has another result" },
  "result.too_late": { status: 409, retryable: false, title: "The call no longer accepts a result" },

  ...DELIVERY_CODES,

  // answers of the reference runner
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

  // answers to an operator's command about a call
  "call.unknown": { status: 404, retryable: false, title: "No such call" },
  "call.in_hand": { status: 409, retryable: true, title: "The call is waiting or in flight" },
  "call.not_delayed": { status: 409, retryable: false, title: "The call is not delayed" },
  "call.undecided": {
    status: 409,
    retryable: true,
    title: "The outcome of the call's payment is not decided",
  },
  "call.not_failed": { status: 409, retryable: false, title: "The call has not failed" },
  "call.too_old": {
    status: 409,
    retryable: false,
    title: "The runner may have forgotten the call",
  },
  "call.forgotten": { status: 410, retryable: false, title: "The call was forgotten" },
  "call.no_body": { status: 404, retryable: false, title: "The call's body is not kept" },
  "call.paid": { status: 409, retryable: false, title: "A paid call cannot be replayed as a new call" },
  "call.no_result": { status: 404, retryable: false, title: "The call has no stored result" },

  // answers of the console
  "operator.unauthorized": { status: 401, retryable: false, title: "A valid token or session is required" },
  "operator.forbidden": { status: 403, retryable: false, title: "This role is read-only" },
  "operator.cross_site": { status: 403, retryable: false, title: "Cross-site request was refused" },
  "operator.host_unknown": { status: 421, retryable: false, title: "Host is not allowed" },
  "payment.unknown": { status: 404, retryable: false, title: "No such payment" },
  "payment.undecidable": {
    status: 409,
    retryable: false,
    title: "The payment needs no decision",
  },
  "payment.not_shown": { status: 409, retryable: false, title: "The transaction does not pay for this call" },
  "payment.transfer_taken": { status: 409, retryable: false, title: "The transfer pays for another call" },
  "token.unconfigured": { status: 409, retryable: false, title: "The token's chain is not configured" },
  "rejected.unknown": { status: 404, retryable: false, title: "No such refused request" },
  "rejected.ambiguous": { status: 409, retryable: false, title: "Several refused requests match this id" },
  "rejected.no_body": { status: 404, retryable: false, title: "The refused request's body was not kept" },
  "refund.report_too_large": { status: 422, retryable: false, title: "Refund report is too large" },
  "refund.unknown": { status: 404, retryable: false, title: "No such refund export" },
  "run.unknown": { status: 404, retryable: false, title: "No such bulk operation" },
  "run.not_resumable": { status: 409, retryable: false, title: "The bulk operation cannot be resumed" },
  "run.too_many": { status: 429, retryable: true, title: "Too many bulk operations are open" },

  // errors of CLI commands
  "command.invalid": { status: 500, retryable: false, title: "Command line is not valid" },
  "command.failed": { status: 500, retryable: false, title: "Command failed" },

  // errors that prevent the start
  "start.config_invalid": { status: 500, retryable: false, title: "Configuration is not valid" },
  "start.redis_not_durable": {
    status: 500,
    retryable: false,
    title: "Redis can lose accepted calls",
  },
  "start.redis_denied": {
    status: 500,
    retryable: false,
    title: "Redis denies access",
  },
  "start.layout_mismatch": {
    status: 500,
    retryable: false,
    title: "Redis holds the data of another release",
  },
  "start.wrong_redis": {
    status: 500,
    retryable: false,
    title: "Redis does not hold this deployment's data",
  },
  "start.program_missing": {
    status: 500,
    retryable: false,
    title: "A required program is not installed",
  },
  "start.package_missing": {
    status: 500,
    retryable: false,
    title: "A required package is not installed",
  },
  "start.part_ended": { status: 500, retryable: false, title: "A started process ended unexpectedly" },
  "start.address_unavailable": { status: 500, retryable: false, title: "Listen address is unavailable" },
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof CODES;

/**
 * Codes with which a producer's request to a runner or to a callback's receiver can fail. The producer's retry policy
 * decides for each code whether the request is retried.
 */
export type DeliveryCode =
  | keyof typeof DELIVERY_CODES
  | "queue.unavailable"
  | "record.unreadable"
  | "internal.unexpected";

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(CODES, text);
}
