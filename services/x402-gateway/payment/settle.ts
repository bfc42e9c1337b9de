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

/** The reconciler looks at a payment this soon after its claim, in case the request that claimed it has died. */
const FIRST_LOOK_MS = 3000;
/** Mostly the receipt is there at once, and a block later at the most. What comes later is the reconciler's. */
const RECEIPT_MS_MAX = 5000;
const RECEIPT_EVERY_MS = { least: 100, most: 1000 };

/** How long after queueing the chain is asked: early enough to settle a payment again if its transaction has vanished. */
const PROVE_AFTER_MS = 30_000;

type Deps = {
  journal: PaymentJournal;
  callerNonces: CallerNonces;
  facilitators: Facilitators;
  chains: Pick<Chains, "of">;
  beginWrite: BeginWrite;
  /** Limit on a payer's open payments. */
  openMax: number;
  /** Limit on the bytes of all unsettled payments. */
  unsettledBytesMax: () => number;
  /** No settle request is sent this long after the claim: the payer may have paid again by then. */
  maxTimeoutMs: number;
  clock: Clock;
  log: Logger;
};

/** The outcome of a claim. A new one was written no longer than `ageMs` ago. */
type ClaimedNow = { kind: "new"; ageMs: number } | { kind: "known"; id: string };

/** The steps by which a payment becomes a call. The request that brings the payment takes them, or the reconciler of any replica. */
export class Settler {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Writes the whole call to disk before money moves, or tells that the payment was known before. `clientKey` is the rate-limit key of the
   * client's address. Throws the error of a refused claim, and `payment.outcome_unknown` if the claim may be on disk: then any replica goes
   * on with it.
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
      // The reply may have been long on its way.
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
   * Sends the settle request of a payment that was claimed `ageMs` ago, and does all that follows from its answer. From here on only
   * proof that no money moved refuses: without a chain to ask, the facilitator's refusal. An open outcome is said to be unknown.
   */
  async settle(payment: NewPayment, ageMs: number): Promise<SettledPayment> {
    const { journal } = this.#deps;
    const claimed = toSettling(payment, ageMs);
    if (this.isTooLate(claimed))
      throw outcomeUnknown(claimed.id, "its claim took too long, so no settle request was sent");
    const settlement = await this.#ask(claimed, payment.request);
    try {
      if (!(await this.enqueueSettled(claimed, settlement)))
        throw new Error("the payment has meanwhile ended otherwise");
      return { ...claimed, state: "QUEUED", settlement };
    } catch (cause) {
      await journal.lookAgain(claimed.id, 0).catch(() => {});
      throw outcomeUnknown(claimed.id, "the payment settled, but its call is not queued yet", cause);
    }
  }

  /** Only success is an answer: nothing else that is said proves anything, unless the facilitator is trusted. */
  async #ask(payment: Payment, request: FacilitatorRequest): Promise<Settlement> {
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
      await journal.lookAgain(payment.id, 0).catch(() => {});
      throw outcomeUnknown(payment.id, `the chain does not show transaction ${answer.transaction} yet`);
    }
    log.warn("payment.settle_answered", { ...fields, reason: answer.reason });
    if (answer.kind === "refused" && chains.of(payment.terms) === "trusted")
      await this.#endRefused(payment, answer.reason);
    await journal.lookAgain(payment.id, 0).catch(() => {});
    throw outcomeUnknown(payment.id, `the facilitator's answer was ${answer.kind}: ${answer.reason}`);
  }

  /**
   * If the facilitator's word is the last: 402, but only once the end is on disk. It is not the last if a reconciler has sent
   * the payment again meanwhile: that request may have settled it, and so be why this one was refused.
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
   * The settlement in the transaction that the facilitator has named, once its receipt shows that it pays this call. Undefined if it does
   * not in time, or shows something else: a token may let a used nonce pass without a transfer, and a facilitator may be wrong.
   */
  async confirm(payment: Payment, transaction: string): Promise<Settlement | undefined> {
    const { chains, clock } = this.#deps;
    const its = chains.of(payment.terms);
    const known = { transaction, by: "facilitator" } as const;
    if (typeof its === "string" || !its.wantsReceipt) return toSettlement(payment, known);
    const authorization = toAuthorization(payment.terms, its.eventOrder);
    const deadline = clock() + RECEIPT_MS_MAX;
    for (let pauseMs = RECEIPT_EVERY_MS.least; ; pauseMs = Math.min(2 * pauseMs, RECEIPT_EVERY_MS.most)) {
      const proof = await its.chain
        .proofOf(transaction as `0x${string}`, authorization)
        .catch(() => undefined);
      if (proof?.kind === "paid" && proof.block >= payment.sinceBlock)
        return toSettlement(payment, { ...known, position: proof.position });
      if (proof !== undefined || clock() >= deadline) return undefined;
      await delay(pauseMs);
    }
  }

  /**
   * Records a settlement and brings the call into its queue, in one step. It may be done again and by several at once. False if the
   * payment has ended otherwise: VOID, in REVIEW, or DISCARDED.
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
      await this.review(payment.id, paysForAnother(settlement));
      return false;
    }
    if (found === "SETTLING" || found === CALL_DROPPED)
      log.info("payment.settled", settledFields(payment, settlement));
    if (found === CALL_DROPPED) log.warn("payment.refund_due", { callId: payment.id });
    return found !== undefined && !ENDED_OTHERWISE.includes(found);
  }

  /** The money has not moved and can no longer move. Resolves with the state found. */
  async markVoid(
    payment: Payment,
    why: { reason: string; dispatches?: number },
  ): Promise<PaymentState | undefined> {
    const { journal, callerNonces, clock } = this.#deps;
    const found = await journal.markVoid(payment, why, { now: clock() });
    const { id, callerNonce } = payment;
    if (callerNonce !== undefined && (found === "SETTLING" || found === "VOID"))
      await callerNonces.free(id, callerNonce).catch(() => {}); // it ends by its time
    return found;
  }

  /** Leaves a payment to an operator, because the evidence does not say what became of it. */
  async review(id: string, reason: string): Promise<void> {
    const { journal, log } = this.#deps;
    await journal.markForReview(id, reason);
    log.error("payment.in_review", { callId: id, reason });
  }

  /** Whether no further settle request is sent: the authorization has ended, or its payer may have bought again. */
  isTooLate(payment: Payment): boolean {
    const { maxTimeoutMs, clock } = this.#deps;
    return payment.readAt - payment.claimedAt >= maxTimeoutMs || hasEnded(payment, clock());
  }
}

function isUnknown(error: unknown): boolean {
  return error instanceof AppError && error.code === "queue.outcome_unknown";
}

/**
 * Whether the authorization has ended so long ago, where no chain is asked. Both the process's clock (`now`) and Redis' must say so: a
 * replica that is ahead would give up a payment that the others can still settle, and Redis' clock alone must not decide it.
 */
export function hasEnded({ terms, readAt }: Payment, now: number, agoMs = 0): boolean {
  return Math.min(now, readAt) >= Number(terms.valid_before) * 1000 + agoMs;
}

/** Why a transfer proves nothing of a payment although it is exactly the one. */
export function paysForAnother({ transaction, position }: Settlement): string {
  return `transfer ${position} of transaction ${transaction} pays for another call`;
}

/** What is found of a payment that has no call in a queue, and gets none. */
const ENDED_OTHERWISE: readonly FoundState[] = ["VOID", "REVIEW", "DISCARDED", CALL_DROPPED];
