import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Payment, Settlement } from "../../../shared/payments/payment.ts";
import { toAuthorization, toSettlement } from "../../../shared/payments/terms.ts";
import type { RetryWrite } from "../../../shared/redis/retry-write.ts";
import type { Finish } from "../payment/finish.ts";
import { isSettled } from "../payment/outcome.ts";
import { type ProveDeps, prove } from "./prove.ts";

const LOOK_MS_MIN = 2000;
const LOOK_MS_MAX = 30_000;
/** How seldom a call is looked at that is in its queue and proven to be paid, or whose payment nobody can be asked about. */
const SELDOM_MS = 600_000;
/** Without a chain, how long after the end of an authorization its outcome is still asked for. */
const GRACE_MS = 60_000;

export type ReconcileDeps = ProveDeps & {
  finish: Finish;
  beginWrite: () => RetryWrite;
  isQueued: (id: string) => Promise<boolean>;
  /** A settle request is not sent again while the one before may still be answered. */
  settleTimeoutMs: number;
};

/**
 * Brings one payment as far as the evidence allows, and says when to look again. Any number of replicas may do so at once,
 * and any may die on the way: every step is a compare-and-set, or the same however often it is done.
 */
export function createReconcile(deps: ReconcileDeps) {
  return async function reconcile(id: string): Promise<void> {
    const payment = await deps.journal.find(id);
    if (payment === undefined) return deps.journal.forget(id);
    switch (payment.state) {
      case "SETTLING":
        return settling(deps, payment);
      case "SETTLED":
        return enqueueSettled(deps, payment);
      case "QUEUED":
      case "FAILED":
        return watchQueued(deps, payment);
      case "INJECTED":
      case "DISCARDED":
        return conclude(deps, payment);
      case "VOID":
      case "REVIEW":
        return;
    }
  };
}

/** The chain decides; where it is silent the facilitator is asked again, for the same payment can be charged only once. */
async function settling(deps: ReconcileDeps, payment: Payment): Promise<void> {
  const { journal, clock, log } = deps;
  const chain = deps.chainOf(payment);
  if (chain === "trusted") return settlingUnseen(deps, payment);
  if (chain === "unknown") return lookAgain(deps, payment);
  const evidence = await chain.evidenceOf(toAuthorization(payment.terms), payment.sinceBlock);
  failpoint("x402.after_evidence");
  switch (evidence.kind) {
    case "paid":
      return settleAndEnqueue(deps, payment, { transaction: evidence.transaction, by: "chain" });
    case "unpaid": {
      await journal.void(payment, { reason: evidence.reason }, { now: clock() });
      failpoint("x402.after_void");
      log.warn("payment.void", { callId: payment.id, payer: payment.terms.payer, reason: evidence.reason });
      return;
    }
    case "contradiction": {
      await journal.review(payment.id, { now: clock(), reason: evidence.reason });
      log.error("payment.in_review", { callId: payment.id, reason: evidence.reason });
      return;
    }
    case "open":
      return evidence.seen === undefined ? settleAgain(deps, payment) : lookAgain(deps, payment);
  }
}

async function settleAgain(deps: ReconcileDeps, payment: Payment): Promise<void> {
  const { journal, facilitators, clock, log } = deps;
  const now = clock();
  const { request } = payment;
  const mayBeUnderWay = now < payment.dispatchedAt + deps.settleTimeoutMs;
  const isOver = now / 1000 >= Number(payment.terms.valid_before);
  if (request === undefined || mayBeUnderWay || isOver || !(await journal.dispatching(payment.id, now))) {
    return lookAgain(deps, payment);
  }
  const outcome = await facilitators.settle(request, payment.facilitator);
  log.info("payment.settled_again", { callId: payment.id, outcome: outcome.kind });
  if (outcome.kind !== "settled") return lookAgain(deps, payment);
  return settleAndEnqueue(deps, payment, { transaction: outcome.transaction, by: "facilitator" });
}

/** Without a chain: the facilitator is asked again, and what stays open past the authorization's end is an operator's. */
async function settlingUnseen(deps: ReconcileDeps, payment: Payment): Promise<void> {
  const { journal, clock, log } = deps;
  if (clock() < Number(payment.terms.valid_before) * 1000 + GRACE_MS) return settleAgain(deps, payment);
  const reason = "the authorization has ended, and the facilitator never said what became of it";
  await journal.review(payment.id, { now: clock(), reason });
  log.error("payment.in_review", { callId: payment.id, reason });
}

async function settleAndEnqueue(
  deps: ReconcileDeps,
  payment: Payment,
  known: Pick<Settlement, "transaction" | "by">,
): Promise<void> {
  const { finish, log } = deps;
  const settlement = toSettlement(payment, known);
  const write = deps.beginWrite();
  if (!(await finish.settle(payment, settlement, write))) return;
  await finish.enqueue({ ...payment, settlement }, write);
  log.info("payment.reconciled", { callId: payment.id, payer: payment.terms.payer, ...known });
}

async function enqueueSettled(deps: ReconcileDeps, payment: Payment): Promise<void> {
  if (!isSettled(payment)) throw new Error(`${payment.id} is SETTLED without a settlement`);
  await deps.finish.enqueue(payment, deps.beginWrite());
  deps.log.info("payment.enqueued_again", { callId: payment.id });
}

/** A call the queue has lost is added again; the record tells whether it has ended meanwhile. */
async function watchQueued(deps: ReconcileDeps, payment: Payment): Promise<void> {
  const { journal, clock, log } = deps;
  if (!(await deps.isQueued(payment.id))) {
    const now = await journal.find(payment.id);
    if (now?.state === "QUEUED" && isSettled(now)) {
      log.error("payment.call_missing", { callId: payment.id });
      await deps.finish.enqueue(now, deps.beginWrite());
      return;
    }
    if (now?.state === "INJECTED" || now?.state === "DISCARDED") return conclude(deps, now);
  }
  if (!(await prove(deps, payment))) return lookAgain(deps, payment);
  await journal.lookAgain(payment.id, clock() + SELDOM_MS);
}

async function conclude(deps: ReconcileDeps, payment: Payment): Promise<void> {
  if (await prove(deps, payment)) return deps.journal.ended(payment, deps.clock());
  return lookAgain(deps, payment);
}

/** Sooner at first, then more seldom. */
async function lookAgain(deps: ReconcileDeps, payment: Payment): Promise<void> {
  if (deps.chainOf(payment) === "unknown") return waitForToken(deps, payment);
  const { journal, clock } = deps;
  const age = clock() - payment.claimedAt;
  await journal.lookAgain(payment.id, clock() + Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, age / 2)));
}

/** The payment stays as it is until its token is configured again, or facilitators are trusted. */
async function waitForToken({ journal, clock, log }: ReconcileDeps, payment: Payment): Promise<void> {
  const { network, asset } = payment.terms;
  log.error("payment.token_unknown", { callId: payment.id, state: payment.state, network, asset });
  await journal.lookAgain(payment.id, clock() + SELDOM_MS);
}
