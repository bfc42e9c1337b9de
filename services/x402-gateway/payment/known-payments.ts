import type { IncomingMessage } from "node:http";
import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { hasSettlement, type Payment, routeOfPayer } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { type Clock, delay, within } from "../../../shared/platform/time/clock.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { jobPath } from "../offer/catalog.ts";
import { findUseOf, type OperatorQuotes } from "../offer/operator-quote.ts";
import type { SignedPayment } from "./header.ts";
import { OpenPaymentError, outcomeUnknown, type PaidCall, toPaidCall } from "./outcome.ts";

/** The payment has a call. */
export type Known = {
  kind: "known";
  id: string;
  /** This request has claimed the payment. It may be given the result without further proof. */
  isFirst?: true;
  /** This request has tried to claim or settle the payment, and does not know what became of it. */
  open?: OpenOutcome;
};

/** A request with a payment that may be known. */
type Asked = {
  req: IncomingMessage;
  ids: JobIds;
  signed: SignedPayment;
  /** The hash of its body, of which so much is read. */
  bodySha256: (limitBytes: number) => Promise<string>;
};

/** Why a request does not know what became of its own payment, and when its settle was sent, in unix ms. */
export type OpenOutcome = { error: OpenPaymentError; since: number };

const LOOK_EVERY_MS = 100;
/** Of those whose payment is new, and of those who repeat one, so many wait. Whoever comes beyond these is told at once to come again. */
const WAITING_MAX = 1024;
/** So long a request waits at least, or for `patienceMs` if that is less: to be told by the chain what a facilitator did not say in time. */
const WAIT_MS_LEAST = 5000;
/** Before this, a facilitator that answers in the usual time needs no look at the journal, and no reconciler has looked at the chain. */
const UNWATCHED_MS = 3000;

type Deps = {
  journals: Partitioned<Pick<PaymentJournal, "look" | "confirm" | "findIdentified" | "findQuoted">>;
  operatorQuotes: Pick<OperatorQuotes, "honoured">;
  clock: Clock;
  /** How long a request waits for a settlement that is under way. */
  patienceMs: number;
  waitingMax?: number;
};

/** Payments that a gateway has claimed before, and their answers. */
export class KnownPayments {
  readonly #deps: Deps;
  /** The journal is read once for all who wait for the same payment. */
  readonly #looks = new Map<string, Promise<Payment | undefined>>();
  /** Apart, so that repeats, which cost nothing, turn away nobody who has just paid. */
  readonly #waiting = { first: 0, repeated: 0 };

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Finds the call that this payment has already, or that was bought under its payment identifier or its idempotency key. Throws
   * `queue.unavailable`, and `payment.conflict` or `payment.identifier_conflict` if the call was bought with another route or body, or if the
   * names of the request stand for two calls. An operator's quote is a name too, once a payment has used it up.
   */
  async find(asked: Asked): Promise<Known | undefined> {
    const { ids, bodySha256 } = asked;
    const found = await this.#lookUp(asked);
    if (found === undefined) return undefined;
    const { known, code } = found;
    const conflict = () => new AppError(code, { reason: `${known.id} was bought by another request` });
    if (known.route !== jobPath(ids)) throw conflict();
    // No more is read than the body that was paid for, and nothing of it is kept.
    const sha256 = await bodySha256(known.terms.body_bytes).catch((error: unknown) => {
      throw error instanceof AppError && error.code === "request.too_large" ? conflict() : error;
    });
    if (sha256 !== known.bodySha256) throw conflict();
    return { kind: "known", id: known.id };
  }

  async #lookUp({ req, ids, signed }: Asked) {
    const { journals, operatorQuotes } = this.#deps;
    const own = await this.#byItself(signed);
    if (own !== undefined) return { known: own, code: "payment.conflict" } as const;
    const names = namesOf(signed).map(async ({ name, code }) => {
      const known = await this.#byName(signed.payer, name);
      return known === undefined ? [] : [{ known, code }];
    });
    const [first, ...others] = (await Promise.all(names)).flat();
    if (first === undefined) return undefined;
    const quote = operatorQuotes.honoured(req, ids);
    const quoted = quote && (await findUseOf(quote, journals));
    const found = [...others.map(({ known }) => known.id), ...(quoted === undefined ? [] : [quoted])];
    if (found.some((id) => id !== first.known.id)) throw twoPurchases();
    return first;
  }

  #journalOf(callId: string) {
    return this.#deps.journals.of(callId);
  }

  async #byItself(signed: SignedPayment): Promise<Payment | undefined> {
    const { callId } = signed;
    const known = callId === undefined ? undefined : await this.#journalOf(callId).look(callId);
    return known !== undefined && isSameSignature(known, signed) ? known : undefined;
  }

  async #byName(payer: string, name: string | undefined): Promise<Payment | undefined> {
    const journal = this.#journalOf(routeOfPayer(payer));
    const id = name === undefined ? undefined : await journal.findIdentified(payer, name);
    return id === undefined ? undefined : journal.look(id);
  }

  /**
   * The answer of a payment that is known, whatever has changed since it was taken: price, policy, limits, operator's quote. Waits for
   * an outcome that is open, unless whoever asks is gone. Throws `payment.void`, `payment.in_review` and `payment.outcome_unknown`.
   */
  async outcome(known: Known, isGone: () => boolean): Promise<PaidCall> {
    const { id, open, isFirst = false } = known;
    const payment = await this.#whenDecided(known, isGone);
    if (payment === undefined) throw open?.error ?? outcomeUnknown(id, `${id} is no longer in the journal`);
    if (payment.state === "VOID") throw voided(payment);
    if (payment.state === "REVIEW") throw inReview(payment);
    if (!hasSettlement(payment)) throw open?.error ?? outcomeUnknown(id, `${id} is still ${payment.state}`);
    // Another gateway may have written it, and not know yet whether it survives a failover.
    await this.#journalOf(id)
      .confirm()
      .catch((cause) => {
        throw outcomeUnknown(id, "the replicas have not confirmed the payment", cause);
      });
    return toPaidCall(payment, { replayed: open === undefined && !isFirst, isFirst });
  }

  async #whenDecided(known: Known, isGone: () => boolean): Promise<Payment | undefined> {
    const { waitingMax = WAITING_MAX } = this.#deps;
    const payment = await this.#look(known.id);
    const those = known.open === undefined ? "repeated" : "first";
    if (payment?.state !== "SETTLING" || this.#waiting[those] >= waitingMax) return payment;
    this.#waiting[those] += 1;
    return this.#watch(known, isGone).finally(() => {
      this.#waiting[those] -= 1;
    });
  }

  /** Looks until no request and no reconciler is settling it, or no request waits for it. */
  async #watch({ id, open }: Known, isGone: () => boolean): Promise<Payment | undefined> {
    const { clock, patienceMs } = this.#deps;
    const now = clock();
    const since = open?.since ?? now;
    const deadline = Math.max(since + patienceMs, now + Math.min(patienceMs, WAIT_MS_LEAST));
    for (;;) {
      const payment = await this.#nextLook(id);
      if (payment?.state !== "SETTLING" || clock() >= deadline || isGone()) return payment;
    }
  }

  #nextLook(id: string): Promise<Payment | undefined> {
    const known = this.#looks.get(id);
    if (known !== undefined) return known;
    const looking = delay(LOOK_EVERY_MS)
      .then(() => this.#look(id))
      .finally(() => this.#looks.delete(id));
    this.#looks.set(id, looking);
    return looking;
  }

  async #look(id: string): Promise<Payment | undefined> {
    return this.#journalOf(id)
      .look(id)
      .catch((cause) => {
        throw outcomeUnknown(id, "payments cannot be read", cause);
      });
  }

  /**
   * Resolves with a payment that has been decided while the facilitator is still settling it: a reconciler of any replica has found the
   * proof on the chain. Undefined if `settling` ends before.
   */
  async untilDecided(id: string, settling: Promise<unknown>): Promise<Payment | undefined> {
    let pauseMs = UNWATCHED_MS;
    while ((await within(pauseMs, settling)).kind === "late") {
      const payment = await this.#journalOf(id)
        .look(id)
        .catch(() => undefined);
      if (payment !== undefined && payment.state !== "SETTLING") return payment;
      pauseMs = LOOK_EVERY_MS;
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

/** As long as nobody has signed, a payment is known by the signature that a contract took before. */
function isSameSignature(known: Payment, { isSignedByPayer, signedSha256 }: SignedPayment): boolean {
  return isSignedByPayer || known.signedSha256 === signedSha256;
}

/**
 * What a payer calls the purchase, and the conflict of another request under that name. As long as nobody has signed, only the
 * identifier of version 1 counts, which stands for the signature.
 */
function namesOf({ isSignedByPayer, decoded: { version, identifier, idempotencyKey } }: SignedPayment) {
  const ofSignature = { name: version === 1 ? identifier : undefined, code: "payment.conflict" } as const;
  if (!isSignedByPayer) return [ofSignature];
  const key = typeof idempotencyKey === "string" ? idempotencyKey : undefined;
  const ofPayer = [version === 2 ? identifier : undefined, key];
  return [ofSignature, ...ofPayer.map((name) => ({ name, code: "payment.identifier_conflict" }) as const)];
}

/** What the error of a claim or a settle leaves open. Throws it if it is an answer. */
export function toOpenOutcome(error: unknown, since: number): OpenOutcome {
  if (error instanceof OpenPaymentError && error.code === "payment.outcome_unknown") return { error, since };
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
