import type { IncomingMessage, ServerResponse } from "node:http";
import { encodePaymentResponseHeader } from "@x402/core/http";
import type { Network } from "@x402/core/types";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { ResultAccess } from "../../../shared/gateway/ask-result.ts";
import { COMMON_HEADERS } from "../../../shared/http/problem.ts";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import {
  hasSettlement,
  type Payment,
  type PaymentState,
  type PaymentTerms,
  type SettledPayment,
  type Settlement,
} from "../../../shared/payments/payment.ts";
import type { Claimed } from "../../../shared/payments/scripts.ts";
import { type Clock, delay, within } from "../../../shared/time/clock.ts";
import { jobPath, soldNoLonger } from "../catalog.ts";
import { expiredProof } from "../policy/caller.ts";
import type { SignedPayment } from "./header.ts";
import { expiredQuote, honouredQuote, type ReadOperatorQuote } from "./operator-quote.ts";

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
};

export function toPaidCall(
  { id, terms, settlement, state, keepsResult }: SettledPayment,
  { replayed, isFirst }: Pick<PaidCall, "replayed" | "isFirst">,
): PaidCall {
  const status = STATUSES[state] ?? "accepted";
  return { id, terms, settlement, status, replayed, isFirst, keepsResult };
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

/**
 * The payment has a call. `open` if this request has just brought it, and does not know what became of it; `onSettled` if it knows at
 * least that it has claimed it: called if the payment settles while the request waits.
 */
export type Known = { kind: "known"; id: string; open?: OpenOutcome; onSettled?: () => void };

/** A request with a payment that may be known. */
type Asked = {
  req: IncomingMessage;
  ids: JobIds;
  signed: SignedPayment;
  /** The hash of its body, of which so much is read. */
  bodySha256: (limitBytes: number) => Promise<string>;
};

export type FindKnown = ReturnType<typeof createFindKnown>;

/**
 * Finds the call that this payment has already, or that was bought under its payment identifier or its idempotency key. Throws
 * `queue.unavailable`, and `payment.conflict` or `payment.identifier_conflict` if the call was bought with another route or body, or if the
 * names of the request stand for two calls. An operator's quote is a name too, once a payment has used it up.
 */
export function createFindKnown(journal: PaymentJournal, readOperatorQuote: ReadOperatorQuote) {
  async function byItself(signed: SignedPayment): Promise<Payment | undefined> {
    const known = signed.callId === undefined ? undefined : await journal.look(signed.callId);
    return known !== undefined && isSameSignature(known, signed) ? known : undefined;
  }

  async function byName(payer: string, name: string | undefined): Promise<Payment | undefined> {
    const id = name === undefined ? undefined : await journal.findIdentified(payer, name);
    return id === undefined ? undefined : journal.look(id);
  }

  async function lookUp({ req, ids, signed }: Asked) {
    const own = await byItself(signed);
    if (own !== undefined) return { known: own, code: "payment.conflict" } as const;
    const names = namesOf(signed).map(async ({ name, code }) => {
      const known = await byName(signed.payer, name);
      return known === undefined ? [] : [{ known, code }];
    });
    const [first, ...others] = (await Promise.all(names)).flat();
    if (first === undefined) return undefined;
    const quote = honouredQuote(readOperatorQuote, req, ids);
    const quoted = quote && (await journal.findQuoted(quote.digest));
    const found = [...others.map(({ known }) => known.id), ...(quoted === undefined ? [] : [quoted])];
    if (found.some((id) => id !== first.known.id)) throw twoPurchases();
    return first;
  }

  return async function findKnown(asked: Asked): Promise<Known | undefined> {
    const { ids, bodySha256 } = asked;
    const found = await lookUp(asked);
    if (found === undefined) return undefined;
    const { known, code } = found;
    const conflict = () => new AppError(code, { reason: `${known.id} was bought with another request` });
    if (known.route !== jobPath(ids)) throw conflict();
    // No more is read than the body that was paid for, and nothing of it is kept.
    const sha256 = await bodySha256(known.terms.body_bytes).catch((error: unknown) => {
      throw error instanceof AppError && error.code === "request.too_large" ? conflict() : error;
    });
    if (sha256 !== known.bodySha256) throw conflict();
    return { kind: "known", id: known.id };
  };
}

function twoPurchases(): AppError {
  return new AppError("payment.identifier_conflict", {
    reason: "the names of the request stand for two purchases",
    publicDetail:
      "The names of this request stand for two purchases: payment-identifier, Idempotency-Key, an operator's quote. " +
      "Nothing was charged. Send the name of the purchase that you mean, and no other.",
  });
}

/** As long as nobody has signed, a payment is known by the signature that a contract took before. */
function isSameSignature(known: Payment, { isProven, signedSha256 }: SignedPayment): boolean {
  return isProven || known.signedSha256 === signedSha256;
}

/**
 * What a payer calls the purchase, and the conflict of another request under that name. As long as nobody has signed, only the
 * identifier of version 1 counts, which stands for the signature.
 */
function namesOf({ isProven, decoded: { version, identifier, idempotencyKey } }: SignedPayment) {
  const ofSignature = { name: version === 1 ? identifier : undefined, code: "payment.conflict" } as const;
  if (!isProven) return [ofSignature];
  const key = typeof idempotencyKey === "string" ? idempotencyKey : undefined;
  const ofPayer = [version === 2 ? identifier : undefined, key];
  return [ofSignature, ...ofPayer.map((name) => ({ name, code: "payment.identifier_conflict" }) as const)];
}

const LOOK_EVERY_MS = 100;
/** Of those whose payment is new, and of those who repeat one, so many wait. Whoever comes beyond these is told at once to come again. */
const WAITING_MAX = 1024;
/** So long a request waits at least, or for `patienceMs` if that is less: to be told by the chain what a facilitator did not say in time. */
const WAIT_MS_LEAST = 5000;

type Deps = {
  journal: Pick<PaymentJournal, "look">;
  clock: Clock;
  /** How long a settlement that is under way is waited for. */
  patienceMs: number;
  waitingMax?: number;
};

/** Why a request does not know what became of its own payment, and when its settle was sent, in unix ms. */
export type OpenOutcome = { error: OpenPaymentError; since: number };

export type KnownOutcome = ReturnType<typeof createKnownOutcome>;

/**
 * The answer of a payment that is known, whatever has changed since it was taken: price, policy, limits, operator's quote. Waits for
 * an outcome that is open, unless whoever asks is gone. Throws `payment.void`, `payment.in_review` and `payment.outcome_unknown`.
 */
export function createKnownOutcome({ journal, clock, patienceMs, waitingMax = WAITING_MAX }: Deps) {
  /** The journal is read once for all who wait for the same payment. */
  const looks = new Map<string, Promise<Payment | undefined>>();
  /** Apart, so that repeats, which cost nothing, turn away nobody who has just paid. */
  const waiting = { first: 0, repeated: 0 };

  async function look(id: string): Promise<Payment | undefined> {
    return journal.look(id).catch((cause) => {
      throw outcomeUnknown(id, "the journal cannot be read", cause);
    });
  }

  function nextLook(id: string): Promise<Payment | undefined> {
    const known = looks.get(id);
    if (known !== undefined) return known;
    const looking = delay(LOOK_EVERY_MS)
      .then(() => look(id))
      .finally(() => looks.delete(id));
    looks.set(id, looking);
    return looking;
  }

  /** Looks until no request and no reconciler is settling it, or nobody waits for it any more. */
  async function watch({ id, open }: Known, isGone: () => boolean): Promise<Payment | undefined> {
    const now = clock();
    const since = open?.since ?? now;
    const deadline = Math.max(since + patienceMs, now + Math.min(patienceMs, WAIT_MS_LEAST));
    for (;;) {
      const payment = await nextLook(id);
      if (payment?.state !== "SETTLING" || clock() >= deadline || isGone()) return payment;
    }
  }

  async function whenDecided(known: Known, isGone: () => boolean): Promise<Payment | undefined> {
    const payment = await look(known.id);
    const those = known.open === undefined ? "repeated" : "first";
    if (payment?.state !== "SETTLING" || waiting[those] >= waitingMax) return payment;
    waiting[those] += 1;
    return watch(known, isGone).finally(() => {
      waiting[those] -= 1;
    });
  }

  return async function knownOutcome(known: Known, isGone: () => boolean): Promise<PaidCall> {
    const { id, open, onSettled } = known;
    const payment = await whenDecided(known, isGone);
    if (payment === undefined)
      throw open?.error ?? outcomeUnknown(id, `${id} was in the journal, and is gone`);
    if (payment.state === "VOID") throw voided(payment);
    if (payment.state === "REVIEW") throw inReview(payment);
    if (!hasSettlement(payment)) throw open?.error ?? outcomeUnknown(id, `${id} is still ${payment.state}`);
    onSettled?.();
    const isFirst = onSettled !== undefined;
    return toPaidCall(payment, { replayed: open === undefined && !isFirst, isFirst });
  };
}

/** Before this, a facilitator that answers in the usual time needs no look at the journal, and no reconciler has looked at the chain. */
const UNWATCHED_MS = 3000;

export type UntilDecided = ReturnType<typeof createUntilDecided>;

/**
 * Resolves with a payment that has been decided while the facilitator is still settling it: a reconciler of any replica has found the
 * proof on the chain. Undefined if `settling` ends before.
 */
export function createUntilDecided(journal: Pick<PaymentJournal, "look">) {
  return async function untilDecided(id: string, settling: Promise<unknown>): Promise<Payment | undefined> {
    let pauseMs = UNWATCHED_MS;
    while ((await within(pauseMs, settling)).kind === "late") {
      const payment = await journal.look(id).catch(() => undefined);
      if (payment !== undefined && payment.state !== "SETTLING") return payment;
      pauseMs = LOOK_EVERY_MS;
    }
    return undefined;
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

/** What the error of a claim or a settle leaves open. Throws it if it is an answer. */
export function toOpenOutcome(error: unknown, since: number): OpenOutcome {
  if (error instanceof OpenPaymentError && error.code === "payment.outcome_unknown") return { error, since };
  throw error;
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
        reason: "a name of the request is known with another request",
      });
    case "too_many_open":
      return new AppError("payment.too_many_open", {
        reason: "too many of the payer's payments are open",
        retryAfterMs: 5000,
      });
    case "client_full":
      return new AppError("payment.too_many_unsettled", {
        reason: "the unsettled payments of the client's address take up its share",
        publicDetail: "Too many payments from your address are not settled yet. This one was not charged.",
        retryAfterMs: 5000,
      });
    case "full":
      return new AppError("payment.unavailable", {
        reason: "the unsettled payments of other addresses leave no room",
        publicDetail: "Too many payments are not settled yet. This one was not charged.",
        retryAfterMs: 5000,
      });
    case "too_large":
      return new AppError("request.too_large", {
        reason: "the payment takes up more than an eighth of what unsettled payments may take in Redis",
        publicDetail: "The body is larger than this server can take with a payment. It was not charged.",
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
  }
}
