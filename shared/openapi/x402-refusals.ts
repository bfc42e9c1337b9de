import type { ErrorCode } from "../platform/errors/codes.ts";
import { ADDS_A_CALL, COMMON_REFUSALS, READS_A_BODY } from "./refusals.ts";

export const JOB_REFUSALS: readonly ErrorCode[] = ["request.not_found", "job.not_found", "job.disabled"];
const QUOTE_REFUSALS: readonly ErrorCode[] = [
  ...(["quote.malformed", "quote.rejected", "quote.expired", "quote.used"] as const),
];
const CALLER_REFUSALS: readonly ErrorCode[] = [
  ...(["caller.missing", "caller.proof_invalid", "caller.not_permitted"] as const),
  ...(["caller.nonce_used", "caller.check_unavailable"] as const),
];
const PAYMENT_REFUSALS: readonly ErrorCode[] = [
  ...(["payment.required", "payment.ambiguous", "payment.malformed", "payment.not_offered"] as const),
  ...(["payment.network_not_offered", "payment.quote_expired", "payment.window_unusable"] as const),
  ...(["payment.signature_invalid", "payment.rejected", "payment.allowance_required"] as const),
  ...(["payment.void", "payment.spent_elsewhere", "payment.conflict"] as const),
  ...([
    "payment.identifier_conflict",
    "payment.idempotency_key_reused",
    "payment.too_many_open",
    "payment.too_many_unsettled",
  ] as const),
  ...(["payment.outcome_unknown", "payment.in_review", "payment.unavailable"] as const),
  "price.unavailable",
];
/** Error codes for a purchase, and for its dry-run. */
export const PURCHASE_REFUSALS: readonly ErrorCode[] = [
  ...[
    COMMON_REFUSALS,
    JOB_REFUSALS,
    QUOTE_REFUSALS,
    CALLER_REFUSALS,
    PAYMENT_REFUSALS,
    READS_A_BODY,
    ADDS_A_CALL,
  ].flat(),
  ...(["request.input_invalid", "callback.refused"] as const),
];

/**
 * Error codes that certainly mean that nothing was charged, because they are decided before the payment is claimed.
 * `payment.conflict` and `payment.spent_elsewhere` are not among them: such a payment was charged for something else, or may
 * still be charged.
 */
export const UNCHARGED: readonly ErrorCode[] = [
  "job.not_found",
  "job.disabled",
  "request.encoding_unsupported",
  "request.input_invalid",
  "callback.refused",
  "caller.missing",
  "caller.proof_invalid",
  "caller.not_permitted",
  "caller.nonce_used",
  "quote.rejected",
  "quote.expired",
  "quote.used",
  "payment.identifier_conflict",
  "payment.idempotency_key_reused",
];
