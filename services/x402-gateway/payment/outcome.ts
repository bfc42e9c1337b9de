import type { ServerResponse } from "node:http";
import { encodePaymentResponseHeader } from "@x402/core/http";
import type { Network } from "@x402/core/types";
import { AppError } from "../../../shared/errors/app-error.ts";
import { COMMON_HEADERS } from "../../../shared/http/problem.ts";
import type { Claimed, PaymentJournal } from "../../../shared/payments/journal.ts";
import {
  hasSettlement,
  type Payment,
  type PaymentState,
  type PaymentTerms,
  type SettledPayment,
  type Settlement,
} from "../../../shared/payments/payment.ts";
import { type Clock, delay } from "../../../shared/time/clock.ts";

/** What a 202 tells of a payment. */
export type PaidCall = {
  id: string;
  terms: PaymentTerms;
  settlement: Settlement;
  status: "accepted" | "failed" | "discarded" | "refund_pending" | "refunded";
  /** Whether the payment was known before. */
  replayed: boolean;
};

export function toPaidCall(
  { id, terms, settlement, state }: SettledPayment,
  { replayed }: { replayed: boolean },
): PaidCall {
  const status = STATUSES[state] ?? "accepted";
  return { id, terms, settlement, status, replayed };
}

const STATUSES: Partial<Record<PaymentState, PaidCall["status"]>> = {
  FAILED: "failed",
  DISCARDED: "discarded",
  REFUND_PENDING: "refund_pending",
  REFUNDED: "refunded",
};

/** 202: paid, and the call is on disk. The same payment gets the same answer whenever it comes again. */
export function answerPaid(res: ServerResponse, paid: PaidCall, statusUrl: string): void {
  const { id, terms, settlement, status, replayed } = paid;
  const { transaction, network, payer } = settlement;
  const body = JSON.stringify({
    status,
    call_id: id,
    receipt: toReceipt(terms, transaction),
    service_id: terms.service_id,
    job_index: terms.job_index,
    transaction,
    status_url: statusUrl,
  });
  const response = { success: true, transaction, network: network as Network, payer };
  res.writeHead(202, {
    ...COMMON_HEADERS,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    [terms.x402_version === 1 ? "X-PAYMENT-RESPONSE" : "PAYMENT-RESPONSE"]:
      encodePaymentResponseHeader(response),
    ...(replayed && { "Idempotent-Replayed": "true" }),
  });
  res.end(body);
}

function toReceipt(terms: PaymentTerms, transaction: string) {
  const { network, asset, symbol, amount, payer, pay_to, quote_digest } = terms;
  return { network, asset, symbol, amount, payer, pay_to, transaction, quote_digest };
}

const LOOK_EVERY_MS = 100;
/** Whoever comes beyond these is told at once to come again. */
const WAITING_MAX = 1024;

type Deps = {
  journal: PaymentJournal;
  clock: Clock;
  /** How long the first repeat waits for the settlement that is under way; those who come later wait with it. */
  patienceMs: number;
};

export type KnownOutcome = ReturnType<typeof createKnownOutcome>;

/**
 * The answer of a payment that is known, whatever has changed since it was taken: price, policy, limits, operator's quote.
 * Throws `payment.void`, `payment.in_review` and `payment.outcome_unknown`.
 */
export function createKnownOutcome({ journal, clock, patienceMs }: Deps) {
  /** The journal is read once for all who wait for the same payment. */
  const watched = new Map<string, Promise<Payment | undefined>>();
  let waiting = 0;

  async function look(id: string): Promise<Payment | undefined> {
    return journal.look(id).catch((cause) => {
      throw outcomeUnknown(id, "the journal cannot be read", cause);
    });
  }

  /** Looks, at most `patienceMs`, until no request and no reconciler is settling it. */
  async function watch(id: string): Promise<Payment | undefined> {
    const deadline = clock() + patienceMs;
    for (;;) {
      await delay(LOOK_EVERY_MS);
      const payment = await look(id);
      if (payment?.state !== "SETTLING" || clock() >= deadline) return payment;
    }
  }

  function watchOnce(id: string): Promise<Payment | undefined> {
    const known = watched.get(id);
    if (known !== undefined) return known;
    const watching = watch(id).finally(() => watched.delete(id));
    watched.set(id, watching);
    return watching;
  }

  async function whenDecided(id: string): Promise<Payment | undefined> {
    const payment = await look(id);
    if (payment?.state !== "SETTLING" || waiting >= WAITING_MAX) return payment;
    waiting += 1;
    return watchOnce(id).finally(() => {
      waiting -= 1;
    });
  }

  return async function knownOutcome(id: string): Promise<PaidCall> {
    const payment = await whenDecided(id);
    if (payment === undefined) throw outcomeUnknown(id, `${id} was in the journal, and is gone`);
    if (payment.state === "VOID") throw voided(payment);
    if (payment.state === "REVIEW") throw inReview(payment);
    if (!hasSettlement(payment)) throw outcomeUnknown(id, `${id} is still ${payment.state}`);
    return toPaidCall(payment, { replayed: true });
  };
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
      "Whether the payment settled is unknown. Send the same payment again, never a new one: it is charged once.",
    retryAfterMs: 2000,
    cause,
  });
}

function inReview({ id, reason }: Payment): OpenPaymentError {
  return new OpenPaymentError("payment.in_review", id, {
    reason: `${id}: ${reason}`,
    publicDetail:
      "Nothing tells for sure whether this payment happened; an operator decides. Do not pay again.",
    retryAfterMs: 60_000,
  });
}

function voided({ id, reason }: Payment): AppError {
  return new AppError("payment.void", {
    reason: `${id}: ${reason}`,
    publicDetail: `This payment did not happen and cannot any more: ${reason}. It was not charged.`,
  });
}

/** Maps a refused claim to the error the payer sees. */
export function refusedClaim(kind: Exclude<Claimed["kind"], "new" | "known">): AppError {
  switch (kind) {
    case "conflict":
      return new AppError("payment.conflict", {
        reason: "the payment was used for another request meanwhile",
      });
    case "identifier_conflict":
      return new AppError("payment.identifier_conflict", {
        reason: "the identifier is known with another request",
      });
    case "too_many_open":
      return new AppError("payment.too_many_open", {
        reason: "too many of the payer's payments are open",
        retryAfterMs: 5000,
      });
    case "nonce_used":
      return new AppError("caller.nonce_used", { reason: "the caller's nonce was used by another payment" });
    case "quote_used":
      return new AppError("quote.used", { reason: "the quote was used by another payment" });
  }
}
