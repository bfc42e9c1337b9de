import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment, PaymentState, Settlement } from "../../../shared/payments/payment.ts";
import { type Clock, delay } from "../../../shared/time/clock.ts";
import type { ReadBody } from "../routes/read-once.ts";
import type { Paid } from "./responses.ts";

const ASK_EVERY_MS = 100;

/** Somebody is about to bring the call into its queue. */
const UNDER_WAY: readonly PaymentState[] = ["SETTLING", "SETTLED"];

type Deps = {
  journal: PaymentJournal;
  clock: Clock;
  /** How long a repeat waits for the settlement that is under way. */
  patienceMs: number;
  statusUrlOf(id: string): string;
};

/**
 * The answer a payment has of its own, whatever has changed since it was taken: price, policy, limits, quote. Throws
 * `payment.conflict`, `payment.void`, `payment.in_review` and `payment.outcome_unknown`.
 */
export function createKnownPayment({ journal, clock, patienceMs, statusUrlOf }: Deps) {
  /** Waits while somebody else settles it. A settled one that is not queued in time is on disk all the same. */
  async function outcomeOf(id: string): Promise<Payment | undefined> {
    const deadline = clock() + patienceMs;
    for (;;) {
      const payment = await journal.look(id).catch((cause) => {
        throw outcomeUnknown(id, "the journal cannot be read", cause);
      });
      if (payment === undefined || !UNDER_WAY.includes(payment.state) || clock() >= deadline) return payment;
      await delay(ASK_EVERY_MS);
    }
  }

  return {
    /** Refuses a known payment with another route or body; no more is read than the body that was paid for. */
    async assertSame(known: Payment, { route, readBody, conflict }: Repeat): Promise<void> {
      const other = () => new AppError(conflict, { reason: `${known.id} was bought with another request` });
      if (known.route !== route) throw other();
      const body = await readBody(known.terms.body_bytes).catch((error: unknown) => {
        throw error instanceof AppError && error.code === "request.too_large" ? other() : error;
      });
      if (sha256Hex(body) !== known.bodySha256) throw other();
    },

    async answerOf(id: string): Promise<Paid> {
      const payment = await outcomeOf(id);
      if (payment === undefined) throw outcomeUnknown(id, `${id} is known, and not found`);
      if (payment.state === "VOID") throw voided(payment);
      if (payment.state === "REVIEW") throw inReview(payment);
      if (!isSettled(payment)) throw outcomeUnknown(id, `${id} is still ${payment.state}`);
      return toPaid(payment, { replayed: true, statusUrl: statusUrlOf(id) });
    },
  };
}

export type KnownPayment = ReturnType<typeof createKnownPayment>;

type Repeat = {
  route: string;
  readBody: ReadBody;
  /** What another request is refused with. */
  conflict: "payment.conflict" | "payment.identifier_conflict";
};

/** A payment whose money has moved. */
export type Settled = Payment & { settlement: Settlement };

export function isSettled(payment: Payment): payment is Settled {
  return payment.settlement !== undefined;
}

export function toPaid(
  { id, terms, settlement, state }: Settled,
  rest: { replayed: boolean; statusUrl: string },
): Paid {
  const status = state === "FAILED" ? "failed" : state === "DISCARDED" ? "discarded" : "accepted";
  return { id, terms, settlement, status, ...rest };
}

/** A payment whose outcome is open; where it can be followed is part of the answer. */
export class OpenPayment extends AppError {
  readonly callId: string;

  constructor(code: "payment.outcome_unknown" | "payment.in_review", callId: string, details: Details) {
    super(code, details);
    this.callId = callId;
  }
}

type Details = ConstructorParameters<typeof AppError>[1];

/** Money may have moved or may yet: never to be answered as if it had not. */
export function outcomeUnknown(callId: string, reason: string, cause?: unknown): OpenPayment {
  return new OpenPayment("payment.outcome_unknown", callId, {
    reason,
    publicDetail:
      "Whether the payment settled is unknown. Send the same payment again, never a new one: it is charged once.",
    retryAfterMs: 2000,
    cause,
  });
}

function inReview({ id, reason }: Payment): OpenPayment {
  return new OpenPayment("payment.in_review", id, {
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
