import type { IncomingMessage } from "node:http";
import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { hasSettlement, type Payment, routeOfPayer } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { type Clock, delay, within } from "../../../shared/platform/time/clock.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { jobPath } from "../offer/catalog.ts";
import { findCallByQuote, type OperatorQuotes } from "../offer/operator-quote.ts";
import type { SignedPayment } from "./header.ts";
import { OpenPaymentError, outcomeUnknown, type PaidCall, toPaidCall } from "./outcome.ts";

/** A payment that is claimed, or may be, with the id of its call. */
export type Known = {
  kind: "known";
  id: string;
  /** Set if this request has claimed the payment. Such a request may get the call's result without further proof. */
  isFirst?: true;
  /** Set if this request has tried to claim or settle the payment and does not know the outcome. */
  open?: OpenOutcome;
};

/** A request whose payment may be a repeat of a known one. */
type PossibleRepeat = {
  req: IncomingMessage;
  ids: JobIds;
  signed: SignedPayment;
  /** Hash of the request's body. Reads at most `limitBytes` of it. */
  bodySha256: (limitBytes: number) => Promise<string>;
};

/** Error of a request whose payment has an unknown outcome, and the time of the payment's settle request (unix ms). */
export type OpenOutcome = { error: OpenPaymentError; sentAt: number };

const READ_EVERY_MS = 100;
/**
 * Limit on waiting requests, counted separately for new and repeated payments. Further requests are answered at once and must try again
 * later.
 */
const WAITING_MAX = 1024;
/**
 * Minimum time for which a request waits for an unknown outcome, even if the settle request was sent long ago. It is shorter only
 * if `waitMs` is. In this time, a reconciler can find an outcome on the chain that the facilitator has not reported.
 */
const WAIT_MS_LEAST = 5000;
/**
 * Delay before the first read of the journal while a settle request is in flight. Until then, no reconciler looks at the payment,
 * and the facilitator has usually answered.
 */
const UNWATCHED_MS = 3000;

type Deps = {
  journals: Partitioned<
    Pick<PaymentJournal, "findWithoutCall" | "confirm" | "findIdentified" | "findQuoted">
  >;
  operatorQuotes: Pick<OperatorQuotes, "readIfAccepted">;
  clock: Clock;
  /** Maximum time for which a request waits for a payment that is being settled. */
  waitMs: number;
  waitingMax?: number;
};

/** Finds payments that any gateway has claimed before, and waits for their outcome. */
export class KnownPayments {
  readonly #deps: Deps;
  /** Reads of the journal that are in flight. All requests that wait for the same payment share one read. */
  readonly #pendingReads = new Map<string, Promise<Payment | undefined>>();
  /**
   * Number of waiting requests: those that have just tried to pay (`first`), and those that repeat a payment. They are counted
   * separately, because repeats cost nothing, and must not use up the capacity for clients that have just paid.
   */
  readonly #waiting = { first: 0, repeated: 0 };

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Finds the call that this payment has bought, or the call that the payer bought under the same payment identifier or
   * idempotency key. Throws `queue.unavailable`.
   * If the found call has another route or body, throws `payment.conflict`, `payment.identifier_conflict` or
   * `payment.idempotency_key_reused`, depending on how the call was found. Also throws `payment.identifier_conflict` if the
   * request's identifier, idempotency key and operator's quote belong to different calls.
   */
  async find(request: PossibleRepeat): Promise<Known | undefined> {
    const { ids, bodySha256 } = request;
    const found = await this.#findNamed(request);
    if (found === undefined) return undefined;
    const { known, code } = found;
    const conflict = () => new AppError(code, { reason: `${known.id} was bought by another request` });
    if (known.route !== jobPath(ids)) throw conflict();
    // Hashes at most as many bytes as the paid body has, and keeps none of them.
    const sha256 = await bodySha256(known.terms.body_bytes).catch((error: unknown) => {
      throw error instanceof AppError && error.code === "request.too_large" ? conflict() : error;
    });
    if (sha256 !== known.bodySha256) throw conflict();
    return { kind: "known", id: known.id };
  }

  async #findNamed({ req, ids, signed }: PossibleRepeat) {
    const { journals, operatorQuotes } = this.#deps;
    const own = await this.#findByPayment(signed);
    if (own !== undefined) return { known: own, code: "payment.conflict" } as const;
    const names = namesOf(signed).map(async ({ name, code }) => {
      const known = await this.#findByName(signed.payer, name);
      return known === undefined ? [] : [{ known, code }];
    });
    const [first, ...others] = (await Promise.all(names)).flat();
    if (first === undefined) return undefined;
    const quote = operatorQuotes.readIfAccepted(req, ids);
    const quoted = quote && (await findCallByQuote(quote, journals));
    const found = [...others.map(({ known }) => known.id), ...(quoted === undefined ? [] : [quoted])];
    if (found.some((id) => id !== first.known.id)) throw twoPurchases();
    return first;
  }

  #journalOf(callId: string) {
    return this.#deps.journals.of(callId);
  }

  async #findByPayment(signed: SignedPayment): Promise<Payment | undefined> {
    const { callId } = signed;
    const known = callId === undefined ? undefined : await this.#journalOf(callId).findWithoutCall(callId);
    return known !== undefined && isSameSignature(known, signed) ? known : undefined;
  }

  async #findByName(payer: string, name: string | undefined): Promise<Payment | undefined> {
    const journal = this.#journalOf(routeOfPayer(payer));
    const id = name === undefined ? undefined : await journal.findIdentified(payer, name);
    return id === undefined ? undefined : journal.findWithoutCall(id);
  }

  /**
   * Resolves with the answer of a known payment, even if the price, the policy, the limits or the operator's quote have changed
   * since. Waits for an unknown outcome, unless the client has closed its side of the connection. Throws `payment.void`,
   * `payment.in_review` and `payment.outcome_unknown`.
   */
  async outcome(known: Known, isGone: () => boolean): Promise<PaidCall> {
    const { id, open, isFirst = false } = known;
    const payment = await this.#awaitDecision(known, isGone);
    if (payment === undefined) throw open?.error ?? outcomeUnknown(id, `${id} is no longer in the journal`);
    if (payment.state === "VOID") throw voided(payment);
    if (payment.state === "REVIEW") throw inReview(payment);
    if (!hasSettlement(payment)) throw open?.error ?? outcomeUnknown(id, `${id} is still ${payment.state}`);
    // Another gateway may have written this state, and its write may not be proven yet. The answer must not be sent before it is
    // sure to survive a failover.
    await this.#journalOf(id)
      .confirm()
      .catch((cause) => {
        throw outcomeUnknown(id, "the replicas have not confirmed the payment", cause);
      });
    return toPaidCall(payment, { replayed: open === undefined && !isFirst, isFirst });
  }

  async #awaitDecision(known: Known, isGone: () => boolean): Promise<Payment | undefined> {
    const { waitingMax = WAITING_MAX } = this.#deps;
    const payment = await this.#readPayment(known.id);
    const group = known.open === undefined ? "repeated" : "first";
    if (payment?.state !== "SETTLING" || this.#waiting[group] >= waitingMax) return payment;
    this.#waiting[group] += 1;
    return this.#pollUntilDecided(known, isGone).finally(() => {
      this.#waiting[group] -= 1;
    });
  }

  /**
   * Reads the payment again and again, until its outcome is known (it is no longer in SETTLING), the deadline has passed, or the
   * client is gone.
   */
  async #pollUntilDecided({ id, open }: Known, isGone: () => boolean): Promise<Payment | undefined> {
    const { clock, waitMs } = this.#deps;
    const now = clock();
    const since = open?.sentAt ?? now;
    const deadline = Math.max(since + waitMs, now + Math.min(waitMs, WAIT_MS_LEAST));
    for (;;) {
      const payment = await this.#readSoon(id);
      if (payment?.state !== "SETTLING" || clock() >= deadline || isGone()) return payment;
    }
  }

  #readSoon(id: string): Promise<Payment | undefined> {
    const known = this.#pendingReads.get(id);
    if (known !== undefined) return known;
    const reading = delay(READ_EVERY_MS)
      .then(() => this.#readPayment(id))
      .finally(() => this.#pendingReads.delete(id));
    this.#pendingReads.set(id, reading);
    return reading;
  }

  async #readPayment(id: string): Promise<Payment | undefined> {
    return this.#journalOf(id)
      .findWithoutCall(id)
      .catch((cause) => {
        throw outcomeUnknown(id, "payments cannot be read", cause);
      });
  }

  /**
   * Waits while the facilitator settles a payment. Resolves with the payment if a reconciler of any replica finds its outcome on
   * the chain before `settling` ends. Otherwise resolves with undefined.
   */
  async untilDecided(id: string, settling: Promise<unknown>): Promise<Payment | undefined> {
    let pauseMs = UNWATCHED_MS;
    while ((await within(pauseMs, settling)).kind === "late") {
      const payment = await this.#journalOf(id)
        .findWithoutCall(id)
        .catch(() => undefined);
      if (payment !== undefined && payment.state !== "SETTLING") return payment;
      pauseMs = READ_EVERY_MS;
    }
    return undefined;
  }
}

function twoPurchases(): AppError {
  return new AppError("payment.identifier_conflict", {
    reason: "the request names two purchases",
    publicDetail:
      "This request names two purchases, by its payment-identifier, Idempotency-Key or operator's quote. " +
      "Nothing was charged. Send only the name of the purchase that you mean.",
  });
}

/**
 * Whether this request may get the answer of the known payment. Its signature must be confirmed, or be the one that the
 * payer's contract accepted at the first request.
 */
function isSameSignature(known: Payment, { isSignedByPayer, signedSha256 }: SignedPayment): boolean {
  return isSignedByPayer || known.signedSha256 === signedSha256;
}

/**
 * Names under which the payer may have bought the call of this request before, each with the error code of a conflict. If the
 * payer's signature is not confirmed, only the identifier of version 1 is used. It is a hash over the signature, so only a copy
 * of the payment has it.
 */
function namesOf({ isSignedByPayer, decoded: { version, identifier, idempotencyKey } }: SignedPayment) {
  const ofSignature = { name: version === 1 ? identifier : undefined, code: "payment.conflict" } as const;
  if (!isSignedByPayer) return [ofSignature];
  const key = typeof idempotencyKey === "string" ? idempotencyKey : undefined;
  return [
    ofSignature,
    { name: version === 2 ? identifier : undefined, code: "payment.identifier_conflict" },
    { name: key, code: "payment.idempotency_key_reused" },
  ] as const;
}

/** Converts the error of a claim or a settle request with an unknown outcome. Throws any other error again. */
export function toOpenOutcome(error: unknown, sentAt: number): OpenOutcome {
  if (error instanceof OpenPaymentError && error.code === "payment.outcome_unknown") return { error, sentAt };
  throw error;
}

function inReview({ id, reason }: Payment): OpenPaymentError {
  return new OpenPaymentError("payment.in_review", id, {
    reason: `${id}: ${reason}`,
    publicDetail: "It is not certain whether this payment was made. An operator decides. Do not pay again.",
    retryAfterMs: 60_000,
  });
}

function voided({ id, reason }: Payment): AppError {
  return new AppError("payment.void", {
    reason: `${id}: ${reason}`,
    publicDetail: `This payment was not made and can no longer be made: ${reason}. It was not charged.`,
  });
}
