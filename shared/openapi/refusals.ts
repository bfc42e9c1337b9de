import type { ErrorCode } from "../platform/errors/codes.ts";

/** Error codes with which any route may refuse a request, or with which the server refuses it before it finds a route. */
export const COMMON_REFUSALS: readonly ErrorCode[] = [
  ...(["request.malformed", "request.timed_out", "request.expectation_failed"] as const),
  ...(["request.headers_too_large", "request.transfer_coding_unsupported"] as const),
  ...(["request.over_budget", "internal.unexpected"] as const),
];

export const READS_A_BODY: readonly ErrorCode[] = [
  ...(["request.too_large", "request.encoding_unsupported", "request.rate_limited"] as const),
];

export const READS_REDIS: readonly ErrorCode[] = ["queue.unavailable", "queue.denied", "record.unreadable"];

export const ADDS_A_CALL: readonly ErrorCode[] = [
  ...READS_REDIS,
  ...(["queue.not_durable", "queue.wrong_redis", "queue.outcome_unknown", "queue.overloaded"] as const),
  ...(["service.starting", "service.draining"] as const),
];

/** Error codes for a request for a call's result, if the call has none to read. */
export const NO_RESULT_REFUSALS: readonly ErrorCode[] = [
  ...(["result.pending", "result.none_kept", "result.gone", "result.call_failed"] as const),
];
