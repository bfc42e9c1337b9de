import { randomUUID } from "node:crypto";
import { storedBytes } from "../../../shared/call/job-call.ts";
import { networksOf } from "../../../shared/http/ip/address.ts";
import type { FoundState, PaymentJournal } from "../../../shared/payments/journal.ts";
import {
  type FacilitatorRequest,
  type NewPayment,
  type Payment,
  type PaymentState,
  type SettledPayment,
  type Settlement,
  settledFields,
  toAuthorization,
  toSettlement,
} from "../../../shared/payments/payment.ts";
import { CALL_DROPPED, type Claimed, TRANSFER_TAKEN } from "../../../shared/payments/scripts.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { traceFields } from "../../../shared/platform/text/trace-id.ts";
import { type Clock, delay } from "../../../shared/platform/time/clock.ts";
import { extraMs } from "../../../shared/redis/large.ts";
import type { BeginWrite, Lane } from "../../../shared/redis/retry-write.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import type { CallerNonces } from "./caller-nonces.ts";
import type { Chains } from "./chains.ts";
import { toSettling } from "./new-payment.ts";
import { outcomeUnknown, refusedClaim } from "./outcome.ts";

/**
 * The reconciler first looks at a payment this long after its claim. If the process that claimed the payment has died, the
 * reconciler then continues in its place.
 */
const FIRST_LOOK_MS = 3000;
/**
 * Time for which a request waits for a transaction's receipt. The node usually has it at once, or one block later. After this
 * time, the request is answered with an unknown outcome, and the reconciler continues.
 */
const RECEIPT_MS_MAX = 5000;
const RECEIPT_EVERY_MS = { least: 100, most: 1000 };

/**
 * Time after which the chain must show the payment of a queued call. It is short enough that the payment can still be settled
 * again if its transaction has vanished from the chain.
 */
const PROVE_AFTER_MS = 30_000;

type Deps = {
  journal: PaymentJournal;
  callerNonces: CallerNonces;
  facilitators: Facilitators;
  chains: Pick<Chains, "of">;
  beginWrite: BeginWrite;
  /** Limit on the number of a payer's payments that are not settled yet. */
  openMax: number;
  /** Limit on the bytes in Redis of all payments that are not settled yet. */
  unsettledBytesMax: () => number;
  /** Once this time has passed since the claim, no settle request is sent, because the payer may have paid again. */
  maxTimeoutMs: number;
  clock: Clock;
  log: Logger;
};

/** Outcome of a claim. `new`: this claim wrote the payment, at most `ageMs` ago. `known`: the payment was claimed before. */
type ClaimedNow = { kind: "new"; ageMs: number } | { kind: "known"; id: string };

/**
 * Turns payments into calls, step by step. The request that brings the payment runs the steps. If it cannot, the reconciler of
 * any replica runs those that are left.
 */
export class Settler {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Claims a payment: writes it with its whole call to disk, before money moves. Also finds whether the payment was claimed
   * before. `clientKey` is the rate-limit key of the client's address. Throws the error of a refused claim. If the claim may be
   * on disk, throws `payment.outcome_unknown`, and the reconciler of any replica continues with it.
   */
  async claim(payment: NewPayment, clientKey: string): Promise<ClaimedNow> {
    const { journal, callerNonces, beginWrite, openMax, unsettledBytesMax, clock } = this.#deps;
    const { callerNonce } = payment;
    const reserved = callerNonce && (await callerNonces.reserve(payment.call.id, callerNonce));
    const by = randomUUID();
    const clients = networksOf(clientKey);
    const bytes = storedBytes(payment.call);
    const write = beginWrite(bytes);
    const dueInMs = FIRST_LOOK_MS + extraMs(bytes);
    const attempt = async (lane: Lane): Promise<Claimed> => {
      const sentAt = clock();
      const limits = { openMax, clients, unsettledBytesMax: unsettledBytesMax() };
      const claimed = await journal.claim(payment, { by, dueInMs, reserved, ...limits }, lane);
      // The claim also got older while the reply was on its way.
      return claimed.kind === "new" ? { ...claimed, ageMs: claimed.ageMs + clock() - sentAt } : claimed;
    };
    const claimed = await write(attempt, bytes).catch((cause) => {
      throw isUnknown(cause)
        ? outcomeUnknown(payment.call.id, "whether the payment was claimed is unknown", cause)
        : cause;
    });
    failpoint("x402.after_claim");
    if (claimed.kind === "new" || claimed.kind === "known") return claimed;
    throw refusedClaim(claimed.kind);
  }

  /**
   * Sends the settle request of a payment that was claimed `ageMs` ago, and acts on the answer. After the claim, a payment is
   * refused only if it is proven that no money moved. If no chain can be read, the facilitator's refusal counts as this proof.
   * Throws `payment.outcome_unknown` after any other answer but success.
   */
  async settle(payment: NewPayment, ageMs: number): Promise<SettledPayment> {
    const { journal } = this.#deps;
    const claimed = toSettling(payment, ageMs);
    if (this.isTooLate(claimed))
      throw outcomeUnknown(claimed.id, "its claim took too long, so no settle request was sent");
    const settlement = await this.#requestSettlement(claimed, payment.request);
    try {
      if (!(await this.enqueueSettled(claimed, settlement)))
        throw new Error("the payment has meanwhile ended otherwise");
      return { ...claimed, state: "QUEUED", settlement };
    } catch (cause) {
      await journal.reschedule(claimed.id, 0).catch(() => {});
      throw outcomeUnknown(claimed.id, "the payment settled, but its call is not queued yet", cause);
    }
  }

  /**
   * Asks the facilitator to settle the payment. Resolves with the settlement if the facilitator reports success. Any other answer
   * does not prove that the payment was not made, except the refusal of a facilitator that is trusted because no chain can be
   * read.
   */
  async #requestSettlement(payment: Payment, request: FacilitatorRequest): Promise<Settlement> {
    const { journal, facilitators, chains, clock, log } = this.#deps;
    const startedAt = clock();
    const answer = await facilitators.settle(request, payment.facilitator);
    failpoint("x402.after_settle");
    const about = { callId: payment.id, ...traceFields(payment.call?.traceparent) };
    const fields = { ...about, outcome: answer.kind, ms: clock() - startedAt };
    if (answer.kind === "settled") {
      log.info("payment.settle_answered", fields);
      const settlement = await this.confirm(payment, answer.transaction);
      if (settlement !== undefined) return settlement;
      await journal.reschedule(payment.id, 0).catch(() => {});
      throw outcomeUnknown(payment.id, `the chain does not show transaction ${answer.transaction} yet`);
    }
    log.warn("payment.settle_answered", { ...fields, reason: answer.reason });
    if (answer.kind === "refused" && chains.of(payment.terms) === "trusted")
      await this.#endRefused(payment, answer.reason);
    await journal.reschedule(payment.id, 0).catch(() => {});
    throw outcomeUnknown(payment.id, `the facilitator's answer was ${answer.kind}: ${answer.reason}`);
  }

  /**
   * Ends a payment that a trusted facilitator refused. Throws `payment.rejected`, but only once the end is on disk. Returns if
   * the refusal is not final, because a reconciler has sent another settle request in between. That request may have settled the
   * payment, and may be the reason for this refusal.
   */
  async #endRefused(payment: Payment, reason: string): Promise<void> {
    const { beginWrite } = this.#deps;
    const { dispatches } = payment;
    const ended = beginWrite()(() => this.markVoid(payment, { reason, dispatches }));
    const found = await ended.catch((cause) => {
      throw outcomeUnknown(payment.id, "the facilitator refused, and this could not be recorded", cause);
    });
    if (found !== "SETTLING" && found !== "VOID") return;
    throw new AppError("payment.rejected", { reason, publicDetail: `the facilitator says: ${reason}` });
  }

  /**
   * Waits until the receipt of the transaction that the facilitator named shows that it pays for this call. Resolves with the
   * settlement then. Resolves with undefined if that takes too long or the receipt shows something else. The receipt is checked
   * because a facilitator may be wrong, and because a token may accept a used nonce without a transfer.
   */
  async confirm(payment: Payment, transaction: string): Promise<Settlement | undefined> {
    const { chains, clock } = this.#deps;
    const tokenChain = chains.of(payment.terms);
    const known = { transaction, by: "facilitator" } as const;
    if (typeof tokenChain === "string" || !tokenChain.wantsReceipt) return toSettlement(payment, known);
    const authorization = toAuthorization(payment.terms, tokenChain.eventOrder);
    const deadline = clock() + RECEIPT_MS_MAX;
    for (let pauseMs = RECEIPT_EVERY_MS.least; ; pauseMs = Math.min(2 * pauseMs, RECEIPT_EVERY_MS.most)) {
      const proof = await tokenChain.chain
        .proofOf(transaction as `0x${string}`, authorization)
        .catch(() => undefined);
      if (proof?.kind === "paid" && proof.block >= payment.sinceBlock)
        return toSettlement(payment, { ...known, position: proof.position });
      if (proof !== undefined || clock() >= deadline) return undefined;
      await delay(pauseMs);
    }
  }

  /**
   * Records a settlement and queues the call, in one step. The step has no further effect if it runs again, even concurrently.
   * Resolves with false if the payment gets no call. That is so if it is VOID, in REVIEW or DISCARDED, if an operator has dropped
   * its call, or if its transfer already pays for another call.
   */
  async enqueueSettled(payment: Payment, settlement: Settlement): Promise<boolean> {
    const { journal, beginWrite, log } = this.#deps;
    const { callBytes } = payment;
    const known = { settlement, proven: settlement.by === "chain" };
    const due = { dueInMs: PROVE_AFTER_MS };
    const found = await beginWrite(callBytes)(
      (lane) => journal.enqueueSettled(payment, known, due, lane),
      callBytes,
    );
    failpoint("x402.after_queued");
    if (found === TRANSFER_TAKEN) {
      await this.review(payment.id, paysForAnotherCall(settlement));
      return false;
    }
    if (found === "SETTLING" || found === CALL_DROPPED)
      log.info("payment.settled", settledFields(payment, settlement));
    if (found === CALL_DROPPED) log.warn("payment.refund_due", { callId: payment.id });
    return found !== undefined && !ENDED_OTHERWISE.includes(found);
  }

  /** Ends a payment whose money has not moved and can no longer move. Resolves with the state that it had before. */
  async markVoid(
    payment: Payment,
    why: { reason: string; dispatches?: number },
  ): Promise<PaymentState | undefined> {
    const { journal, callerNonces, clock } = this.#deps;
    const found = await journal.markVoid(payment, why, { now: clock() });
    const { id, callerNonce } = payment;
    if (callerNonce !== undefined && (found === "SETTLING" || found === "VOID"))
      await callerNonces.free(id, callerNonce).catch(() => {}); // If this fails, the reservation ends when it expires.
    return found;
  }

  /** Puts a payment into review, where an operator decides, because the evidence does not show whether it was made. */
  async review(id: string, reason: string): Promise<void> {
    const { journal, log } = this.#deps;
    await journal.markForReview(id, reason);
    log.error("payment.in_review", { callId: id, reason });
  }

  /**
   * Whether it is too late for another settle request, because the authorization has expired, or because the payer may have paid
   * again.
   */
  isTooLate(payment: Payment): boolean {
    const { maxTimeoutMs, clock } = this.#deps;
    return payment.readAt - payment.claimedAt >= maxTimeoutMs || hasEnded(payment, clock());
  }
}

function isUnknown(error: unknown): boolean {
  return error instanceof AppError && error.code === "queue.outcome_unknown";
}

/**
 * Whether the authorization expired at least `agoMs` ago, by the clock of the process (`now`) and also by that of Redis. If one
 * fast clock could decide this alone, it would end a payment that can still be settled.
 */
export function hasEnded({ terms, readAt }: Payment, now: number, agoMs = 0): boolean {
  return Math.min(now, readAt) >= Number(terms.valid_before) * 1000 + agoMs;
}

/** Returns the reason for an operator why a transfer that matches a payment does not pay for it. */
export function paysForAnotherCall({ transaction, position }: Settlement): string {
  return `transfer ${position} of transaction ${transaction} pays for another call`;
}

/** States in which a payment has no call in a queue and will get none. */
const ENDED_OTHERWISE: readonly FoundState[] = ["VOID", "REVIEW", "DISCARDED", CALL_DROPPED];
