import type { ServerResponse } from "node:http";
import { encodePaymentResponseHeader } from "@x402/core/http";
import type { Network } from "@x402/core/types";
import { COMMON_HEADERS } from "../../../shared/http/answer.ts";
import type { ResultAccess } from "../../../shared/ingress/ask-result.ts";
import type {
  PaymentState,
  PaymentTerms,
  SettledPayment,
  Settlement,
} from "../../../shared/payments/payment.ts";
import type { Claimed } from "../../../shared/payments/scripts.ts";
import { AppError, RETRY_AFTER_MS } from "../../../shared/platform/errors/app-error.ts";
import { soldAfterAudit, soldNoLonger } from "../offer/catalog.ts";
import { expiredQuote } from "../offer/operator-quote.ts";
import { expiredProof } from "../policy/caller-policy.ts";

/** What a 202 tells of a payment. */
export type PaidCall = {
  id: string;
  terms: PaymentTerms;
  settlement: Settlement;
  status: "accepted" | "failed" | "discarded" | "refund_pending" | "refunded";
  /** Whether the payment was known before. */
  replayed: boolean;
  /** Whether it was this very request that claimed the payment. No other one proves by its payment that it is the payer's. */
  isFirst: boolean;
  keepsResult: boolean;
  /** The trace of its call; undefined if none is known here. */
  traceparent: string | undefined;
};

export function toPaidCall(
  { id, terms, settlement, state, keepsResult, call }: SettledPayment,
  { replayed, isFirst }: Pick<PaidCall, "replayed" | "isFirst">,
): PaidCall {
  const status = STATUSES[state] ?? "accepted";
  const traceparent = call?.traceparent;
  return { id, terms, settlement, status, replayed, isFirst, keepsResult, traceparent };
}

const STATUSES: Partial<Record<PaymentState, PaidCall["status"]>> = {
  FAILED: "failed",
  DISCARDED: "discarded",
  REFUND_PENDING: "refund_pending",
  REFUNDED: "refunded",
};

/**
 * 202: paid, and the call is on disk. The same payment gets the same answer whenever it comes again; only the access to the result is
 * for who has proven a right to it.
 */
export function answerPaid(
  res: ServerResponse,
  paid: PaidCall,
  statusUrl: string,
  access: ResultAccess | undefined,
): void {
  const { id, terms, settlement, status } = paid;
  const { transaction } = settlement;
  const body = JSON.stringify({
    status,
    call_id: id,
    receipt: toReceipt(terms, transaction),
    service_id: terms.service_id,
    job_index: terms.job_index,
    transaction,
    status_url: statusUrl,
    ...access,
  });
  res.writeHead(202, {
    ...COMMON_HEADERS,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    Location: statusUrl,
    ...paidHeaders(paid),
  });
  res.end(body);
}

/** What the headers of any answer to a paid request tell: by its version, that it was paid. */
export function paidHeaders({ terms, settlement, replayed }: PaidCall): Record<string, string> {
  const { transaction, network, payer } = settlement;
  const response = { success: true, transaction, network: network as Network, payer };
  const name = terms.x402_version === 1 ? "X-PAYMENT-RESPONSE" : "PAYMENT-RESPONSE";
  return {
    [name]: encodePaymentResponseHeader(response),
    ...(replayed && { "Idempotent-Replayed": "true" }),
  };
}

function toReceipt(terms: PaymentTerms, transaction: string) {
  const { network, asset, symbol, amount, payer, pay_to, quote_digest } = terms;
  return { network, asset, symbol, amount, payer, pay_to, transaction, quote_digest };
}

/** The error of a payment whose outcome is open. The answer also tells where the payment can be followed. */
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

/** For money that may have moved or may yet move: such a payment is never answered as if nothing had been paid. */
export function outcomeUnknown(callId: string, reason: string, cause?: unknown): OpenPaymentError {
  return new OpenPaymentError("payment.outcome_unknown", callId, {
    reason,
    publicDetail:
      "It is unknown whether the payment settled. Send the same payment again, never a new one: it is charged once.",
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });
}

/** Maps a refused claim to the error the payer sees. */
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
      return soldNoLonger();
    case "unaudited":
      return soldAfterAudit();
  }
}
