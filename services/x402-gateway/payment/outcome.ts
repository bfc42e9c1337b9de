import type { ServerResponse } from "node:http";
import { encodePaymentResponseHeader } from "@x402/core/http";
import type { Network } from "@x402/core/types";
import { COMMON_HEADERS } from "../../../shared/http/answer.ts";
import type { ResultAccess } from "../../../shared/ingress/ask-result.ts";
import type { PaidAnswer } from "../../../shared/openapi/x402-answers.ts";
import { UNCHARGED } from "../../../shared/openapi/x402-refusals.ts";
import type {
  PaymentState,
  PaymentTerms,
  SettledPayment,
  Settlement,
} from "../../../shared/payments/payment.ts";
import type { SignedReceipt } from "../../../shared/payments/receipt.ts";
import type { Claimed } from "../../../shared/payments/scripts.ts";
import { AppError, RETRY_AFTER_MS } from "../../../shared/platform/errors/app-error.ts";
import { drainingError, unauditedError } from "../offer/catalog.ts";
import { expiredQuote } from "../offer/operator-quote.ts";
import { expiredProof } from "../policy/caller-policy.ts";
import type { SignedPayment } from "./header.ts";

/** Facts of a settled payment that its 202 answer contains. */
export type PaidCall = {
  id: string;
  terms: PaymentTerms;
  settlement: Settlement;
  status: PaidAnswer["status"];
  /** Whether the payment was known before this request. */
  replayed: boolean;
  /**
   * Whether this request has claimed the payment. A request that repeats a payment need not come from the payer, because others
   * can copy the payment from the chain.
   */
  isFirst: boolean;
  keepsResult: boolean;
  bodySha256: string;
  /** Trace of the call. Undefined if the payment's record has none. */
  traceparent: string | undefined;
};

export function toPaidCall(
  { id, terms, settlement, state, keepsResult, bodySha256, call }: SettledPayment,
  { replayed, isFirst }: Pick<PaidCall, "replayed" | "isFirst">,
): PaidCall {
  const status = STATUSES[state] ?? "accepted";
  const traceparent = call?.traceparent;
  return { id, terms, settlement, status, replayed, isFirst, keepsResult, bodySha256, traceparent };
}

const STATUSES: Partial<Record<PaymentState, PaidCall["status"]>> = {
  FAILED: "failed",
  DISCARDED: "discarded",
  REFUND_PENDING: "refund_pending",
  REFUNDED: "refunded",
};

/**
 * Answers 202, because the payment is settled and its call is on disk. A repeat of the payment gets the same answer. `access`
 * lets the client read the call's result, so it must be set only for a client that has proven its right to the result.
 */
export function answerPaid(
  res: ServerResponse,
  paid: PaidCall,
  statusUrl: string,
  access: ResultAccess | undefined,
  signedReceipt: SignedReceipt | undefined,
): void {
  const { id, terms, settlement, status } = paid;
  const { transaction } = settlement;
  const answer: PaidAnswer = {
    status,
    call_id: id,
    receipt: toReceipt(terms, transaction),
    ...(signedReceipt && { signed_receipt: signedReceipt }),
    service_id: terms.service_id,
    job_index: terms.job_index,
    transaction,
    status_url: statusUrl,
    ...access,
  };
  const body = JSON.stringify(answer);
  res.writeHead(202, {
    ...COMMON_HEADERS,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    Location: statusUrl,
    ...paidHeaders(paid),
  });
  res.end(body);
}

/**
 * Returns the headers that an answer to a settled payment has, in the form of the payment's protocol version. If the body of the
 * answer is the job's own result, the signed receipt is not in the body. Then it is in the header, among the settlement's
 * extensions (x402 v2, section 5.3).
 */
export function paidHeaders(
  { terms, settlement, replayed }: PaidCall,
  signedReceipt?: SignedReceipt,
): Record<string, string> {
  const { transaction, network, payer } = settlement;
  const response = {
    ...{ success: true, transaction, network: network as Network, payer },
    ...(signedReceipt && { extensions: { signed_receipt: signedReceipt } }),
  };
  return {
    [RESPONSE_HEADERS[terms.x402_version]]: encodePaymentResponseHeader(response),
    ...(replayed && { "Idempotent-Replayed": "true" }),
  };
}

/**
 * Returns the headers of a refusal that certainly charged nothing. Only with these headers may a client count the amount as
 * unspent. A payment whose signature is not confirmed gets none: the gateway searches for earlier purchases only after the
 * confirmation, so this payment may have bought a call.
 */
export function unchargedHeaders(
  { code }: AppError,
  signed: SignedPayment | undefined,
): Record<string, string> {
  if (!signed?.isSignedByPayer || !UNCHARGED.includes(code)) return {};
  const { decoded, payer } = signed;
  const network = (decoded.version === 1 ? decoded.network : decoded.accepted.network) as Network;
  const response = { success: false, errorReason: code, transaction: "", network, payer };
  return { [RESPONSE_HEADERS[decoded.version]]: encodePaymentResponseHeader(response) };
}

const RESPONSE_HEADERS = { 1: "X-PAYMENT-RESPONSE", 2: "PAYMENT-RESPONSE" } as const;

function toReceipt(terms: PaymentTerms, transaction: string) {
  const { network, asset, symbol, amount, payer, pay_to, quote_digest } = terms;
  return { network, asset, symbol, amount, payer, pay_to, transaction, quote_digest };
}

/** Error of a payment whose outcome is unknown. The answer has a URL at which the client can follow the payment. */
export class OpenPaymentError extends AppError {
  readonly callId: string;

  constructor(
    code: "payment.outcome_unknown" | "payment.in_review",
    callId: string,
    details: ConstructorParameters<typeof AppError>[1],
  ) {
    super(code, details);
    this.callId = callId;
  }
}

/**
 * Returns the error for a payment whose money may have moved or may still move. Such a payment must never be answered as if it
 * were unpaid.
 */
export function outcomeUnknown(callId: string, reason: string, cause?: unknown): OpenPaymentError {
  return new OpenPaymentError("payment.outcome_unknown", callId, {
    reason,
    publicDetail:
      "It is unknown whether the payment settled. Send the same payment again, never a new one: it is charged once.",
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });
}

/** Maps a refused claim to the error that the payer sees. */
export function refusedClaim(kind: Exclude<Claimed["kind"], "new" | "known">): AppError {
  switch (kind) {
    case "conflict":
      return new AppError("payment.conflict", {
        reason: "the payment has meanwhile been used for another request",
      });
    case "identifier_conflict":
      return new AppError("payment.identifier_conflict", {
        reason: "a name of this request belongs to another request",
      });
    case "idempotency_key_reused":
      return new AppError("payment.idempotency_key_reused", {
        reason: "the Idempotency-Key belongs to another request",
      });
    case "too_many_open":
      return new AppError("payment.too_many_open", {
        reason: "too many of the payer's payments are open",
        retryAfterMs: 5000,
      });
    case "client_full":
      return new AppError("payment.too_many_unsettled", {
        reason: "the unsettled payments of the client's address use its whole share",
        publicDetail: "Too many payments from your address are not settled yet. This one was not charged.",
        retryAfterMs: 5000,
      });
    case "full":
      return new AppError("payment.unavailable", {
        reason: "the unsettled payments of other addresses leave no capacity",
        publicDetail: "Too many payments are not settled yet. This one was not charged.",
        retryAfterMs: 5000,
      });
    case "too_large":
      return new AppError("request.too_large", {
        reason: "the payment needs more than an eighth of the limit on unsettled payments in Redis",
        publicDetail: "The body is larger than this server can accept with a payment. Nothing was charged.",
      });
    case "nonce_used":
      return new AppError("caller.nonce_used", { reason: "the caller's nonce was used by another payment" });
    case "nonce_expired":
      return expiredProof();
    case "quote_used":
      return new AppError("quote.used", { reason: "the quote was used by another payment" });
    case "quote_expired":
      return expiredQuote();
    case "drained":
      return drainingError();
    case "unaudited":
      return unauditedError();
  }
}
