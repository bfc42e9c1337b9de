import type { Chain } from "../../../shared/ethereum/chain.ts";
import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import {
  type Payment,
  type Settlement,
  toAuthorization,
  toSettlement,
} from "../../../shared/payments/payment.ts";
import { extraMs } from "../../../shared/redis/large.ts";
import type { BeginWrite } from "../../../shared/redis/retry-write.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { PaymentChain } from "../chains.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import type { EnqueueSettled } from "../payment/settle.ts";

const LOOK_MS_MIN = 2000;
const LOOK_MS_MAX = 30_000;
/** How seldom a payment is looked at that is proven and queued, or that nobody can be asked about. */
const SELDOM_MS = 600_000;
/** Without a chain: how long after an authorization has ended its outcome is still asked for. */
const GRACE_MS = 60_000;

type ReconcileDeps = {
  journal: PaymentJournal;
  chainOf: (payment: Payment) => PaymentChain;
  facilitators: Facilitators;
  enqueueSettled: EnqueueSettled;
  beginWrite: BeginWrite;
  isQueued: (payment: Payment) => Promise<boolean>;
  /** A settle request is not sent again while the one before it may still be answered. */
  settleTimeoutMs: number;
  clock: Clock;
  log: Logger;
};

export type Reconcile = ReturnType<typeof createReconcile>;

/**
 * Brings one payment as far as the evidence allows, and says when to look again. Any number of replicas may do so at once,
 * and any may die on the way: every step is a compare-and-set, or has the same effect however often it is done. It reads no
 * bodies.
 */
export function createReconcile(deps: ReconcileDeps) {
  const { journal, chainOf, facilitators, beginWrite, isQueued, clock, log } = deps;
  const lookAgain = createLookAgain({ journal, chainOf, clock, log });
  const settleOpen = createSettleOpen(deps, lookAgain);
  const prove = createProve({ journal, chainOf, facilitators, clock, log });

  /** Adds a call again if the queue has lost it; the record tells whether it has ended meanwhile. */
  async function watchQueued(payment: Payment): Promise<void> {
    if (!(await isQueued(payment))) {
      const now = await journal.look(payment.id);
      if (now?.state === "QUEUED") return enqueueAgain(now);
      if (now?.state === "INJECTED" || now?.state === "DISCARDED") return conclude(now);
    }
    if (!(await prove(payment))) return lookAgain(payment);
    await journal.lookAgain(payment.id, clock() + SELDOM_MS);
  }

  async function enqueueAgain(payment: Payment): Promise<void> {
    log.error("payment.call_missing", { callId: payment.id });
    const { callBytes } = payment;
    await beginWrite(callBytes)((lane) => journal.enqueueAgain(payment, clock(), lane), callBytes);
  }

  async function conclude(payment: Payment): Promise<void> {
    if (await prove(payment)) return journal.markEnded(payment, clock());
    return lookAgain(payment);
  }

  return async function reconcile(id: string): Promise<void> {
    const payment = await journal.look(id);
    if (payment === undefined) return journal.forget(id);
    switch (payment.state) {
      case "SETTLING":
        return settleOpen(payment);
      case "QUEUED":
      case "FAILED":
        return watchQueued(payment);
      case "INJECTED":
      case "DISCARDED":
        return conclude(payment);
      case "VOID":
      case "REVIEW":
        return;
    }
  };
}

/** Finds out what became of a payment in SETTLING: the chain decides; if it is silent the facilitator is asked again. */
function createSettleOpen(deps: ReconcileDeps, lookAgain: (payment: Payment) => Promise<void>) {
  const { journal, chainOf, facilitators, enqueueSettled, settleTimeoutMs, clock, log } = deps;

  async function askChain(chain: Chain, payment: Payment): Promise<void> {
    const evidence = await chain.evidenceOf(toAuthorization(payment.terms), payment.sinceBlock);
    failpoint("x402.after_evidence");
    switch (evidence.kind) {
      case "paid":
        return settleAndEnqueue(payment, { transaction: evidence.transaction, by: "chain" });
      case "unpaid": {
        const { reason } = evidence;
        await journal.markVoid(payment, { reason }, { now: clock() });
        failpoint("x402.after_void");
        log.warn("payment.void", { callId: payment.id, payer: payment.terms.payer, reason });
        return;
      }
      case "contradiction":
        return review(payment, evidence.reason);
      case "open":
        return evidence.seen === undefined ? settleAgain(payment) : lookAgain(payment);
    }
  }

  /** Asking again is safe: the same payment can be charged only once. */
  async function settleAgain(payment: Payment): Promise<void> {
    const { id, request, facilitator, dispatchedAt, callBytes } = payment;
    const now = clock();
    // The first request followed the claim, which takes longer for a large call.
    const mayBeUnderWay = now < dispatchedAt + extraMs(callBytes) + settleTimeoutMs;
    if (request === undefined || mayBeUnderWay || isOver(payment, now)) return lookAgain(payment);
    if (!(await journal.markDispatching(id, now))) return lookAgain(payment);
    const outcome = await facilitators.settle(request, facilitator);
    log.info("payment.settled_again", { callId: id, outcome: outcome.kind });
    if (outcome.kind !== "settled") return lookAgain(payment);
    return settleAndEnqueue(payment, { transaction: outcome.transaction, by: "facilitator" });
  }

  async function review({ id }: Payment, reason: string): Promise<void> {
    await journal.markForReview(id, { now: clock(), reason });
    log.error("payment.in_review", { callId: id, reason });
  }

  async function settleAndEnqueue(payment: Payment, known: Pick<Settlement, "transaction" | "by">) {
    if (!(await enqueueSettled(payment, toSettlement(payment, known)))) return;
    log.info("payment.reconciled", { callId: payment.id, payer: payment.terms.payer, ...known });
  }

  return async function settleOpen(payment: Payment): Promise<void> {
    const chain = chainOf(payment);
    if (chain === "unknown") return lookAgain(payment);
    if (chain !== "trusted") return askChain(chain, payment);
    if (clock() < Number(payment.terms.valid_before) * 1000 + GRACE_MS) return settleAgain(payment);
    return review(payment, "the authorization has ended, and the facilitator never said what became of it");
  };
}

/** Whether the authorization has ended, so that nobody can settle the payment any more. */
function isOver({ terms }: Payment, now: number): boolean {
  return now / 1000 >= Number(terms.valid_before);
}

/** Puts the next look off: a little at first, then for longer. */
function createLookAgain({ journal, chainOf, clock, log }: Omit<ProveDeps, "facilitators">) {
  /** The payment stays as it is until its token is configured again, or facilitators are trusted. */
  async function waitForToken({ id, state, terms: { network, asset } }: Payment): Promise<void> {
    log.error("payment.token_unknown", { callId: id, state, network, asset });
    await journal.lookAgain(id, clock() + SELDOM_MS);
  }

  return async function lookAgain(payment: Payment): Promise<void> {
    if (chainOf(payment) === "unknown") return waitForToken(payment);
    const age = clock() - payment.claimedAt;
    await journal.lookAgain(payment.id, clock() + Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, age / 2)));
  };
}

type ProveDeps = Pick<ReconcileDeps, "journal" | "chainOf" | "facilitators" | "clock" | "log">;

/**
 * Checks on the chain what a facilitator has said. True once there is nothing more to find out. A payment that the chain
 * contradicts keeps its call, which the runner may have; the log and the journal tell of it.
 */
function createProve({ journal, chainOf, facilitators, clock, log }: ProveDeps) {
  /** One question to the node; evidence takes several. The transaction that a facilitator named is mostly there. */
  async function isShown(chain: Chain, { settlement, terms }: Payment): Promise<boolean> {
    if (settlement === undefined) return false;
    return chain.showsPaid(settlement.transaction as `0x${string}`, toAuthorization(terms));
  }

  /** Settles again if a reorganisation has taken the transaction away, as long as the authorization lasts. */
  async function settleVanished(chain: Chain, payment: Payment): Promise<void> {
    const { id, request, settlement, terms, facilitator } = payment;
    if (request === undefined || settlement === undefined || isOver(payment, clock())) return;
    const block = await chain.blockPaidIn(settlement.transaction as `0x${string}`, toAuthorization(terms));
    if (block !== undefined) return;
    const outcome = await facilitators.settle(request, facilitator);
    log.warn("payment.vanished", { callId: id, settledAgain: outcome.kind });
  }

  return async function prove(payment: Payment): Promise<boolean> {
    const chain = chainOf(payment);
    if (payment.proven || payment.reason !== undefined || chain === "trusted") return true;
    if (chain === "unknown") return false;
    const { settlement } = payment;
    if (settlement !== undefined && (await isShown(chain, payment))) {
      await journal.markProven(payment, settlement.transaction);
      return true;
    }
    const evidence = await chain.evidenceOf(toAuthorization(payment.terms), payment.sinceBlock);
    if (evidence.kind === "open") {
      if (evidence.seen === undefined) await settleVanished(chain, payment);
      return false;
    }
    if (evidence.kind === "paid") {
      await journal.markProven(payment, evidence.transaction);
      return true;
    }
    const reason = `the call was given to the runner, and the chain says: ${evidence.reason}`;
    await journal.markDisputed(payment.id, reason);
    log.error("payment.contradicted", { callId: payment.id, payer: payment.terms.payer, reason });
    return true;
  };
}
