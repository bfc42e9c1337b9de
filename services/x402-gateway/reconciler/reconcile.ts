import { type PaymentJournal, paidQueueOf } from "../../../shared/payments/journal.ts";
import {
  type Payment,
  type Settlement,
  showsTransfer,
  toAuthorization,
  toSettlement,
} from "../../../shared/payments/payment.ts";
import { TRANSFER_TAKEN } from "../../../shared/payments/scripts.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Fields, Logger } from "../../../shared/platform/log/logger.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { openRegistry } from "../../../shared/queue/registry.ts";
import { extraMs } from "../../../shared/redis/large.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import type { BeginWrite } from "../../../shared/redis/retry-write.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import type { Chains, TokenChain } from "../payment/chains.ts";
import { hasEnded, paysForAnother, type Settler } from "../payment/settle.ts";

const LOOK_MS_MIN = 2000;
const LOOK_MS_MAX = 30_000;
/** How seldom a payment is looked at that is proven and queued, or that nobody can be asked about. */
const SELDOM_MS = 600_000;
/** Without a chain: how long after an authorization has ended its outcome is still asked for. */
const GRACE_MS = 60_000;

export type ReconcileDeps = {
  journal: PaymentJournal;
  chains: Chains;
  facilitators: Facilitators;
  settler: Settler;
  beginWrite: BeginWrite;
  partition: Partition;
  /** A settle request is not sent again while the one before it may still be answered. */
  settleTimeoutMs: number;
  /** Nor so long after the claim. */
  maxTimeoutMs: number;
  clock: Clock;
  log: Logger;
};

/**
 * Brings one payment as far as the evidence allows, and says when to look again. Any number of replicas may do so at once,
 * and any may die on the way: every step is a compare-and-set, or has the same effect however often it is done. It reads no
 * bodies.
 */
export function createReconcile(deps: ReconcileDeps) {
  const { journal, chains, beginWrite, clock, log } = deps;
  const registry = openRegistry(deps.partition);
  const tellMissing = createTellMissing(clock, log);
  const lookAgain = createLookAgain({ journal, chains, tellMissing });
  const settleOpen = createSettleOpen(deps, tellMissing, lookAgain);
  const prove = createProve(deps, tellMissing);

  /** Adds a call again if the queue has lost it; the record tells whether it has ended meanwhile. */
  async function watchQueued(payment: Payment): Promise<void> {
    if ((await registry.find(payment.id, paidQueueOf(payment.terms))) === undefined) {
      const now = await journal.look(payment.id);
      if (now?.state === "QUEUED") return enqueueAgain(now);
      if (now?.state === "INJECTED" || now?.state === "DISCARDED") return conclude(now);
    }
    if (!(await prove(payment))) return lookAgain(payment);
    await journal.lookAgain(payment.id, SELDOM_MS);
  }

  async function enqueueAgain(payment: Payment): Promise<void> {
    log.error("payment.call_missing", { callId: payment.id });
    const { callBytes } = payment;
    await beginWrite(callBytes)((lane) => journal.enqueueAgain(payment, lane), callBytes);
  }

  async function conclude(payment: Payment): Promise<void> {
    if (await prove(payment)) return journal.markEnded(payment);
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
      case "REFUND_PENDING":
      case "REFUNDED":
        return journal.leave(id);
      case "VOID":
      case "REVIEW":
        return;
    }
  };
}

/** Finds out what became of a payment in SETTLING: the chain decides; if it is silent the facilitator is asked again. */
function createSettleOpen(
  deps: ReconcileDeps,
  tellMissing: TellMissing,
  lookAgain: (payment: Payment) => Promise<void>,
) {
  const { journal, chains, facilitators, settler, clock, log } = deps;
  const { settleTimeoutMs, maxTimeoutMs } = deps;

  async function askChain(its: TokenChain, payment: Payment): Promise<void> {
    const evidence = await evidenceOf(its, payment);
    failpoint("x402.after_evidence");
    switch (evidence.kind) {
      case "paid": {
        const { transaction, position } = evidence;
        return enqueue(payment, toSettlement(payment, { transaction, position, by: "chain" }));
      }
      case "unpaid": {
        const { reason } = evidence;
        await settler.markVoid(payment, { reason });
        failpoint("x402.after_void");
        log.warn("payment.void", { callId: payment.id, payer: payment.terms.payer, reason });
        return;
      }
      case "contradiction":
        return settler.review(payment.id, evidence.reason);
      case "open":
        if (evidence.searched !== undefined) await journal.markSearched(payment.id, evidence.searched);
        return evidence.seen === undefined ? settleAgain(payment) : lookAgain(payment);
    }
  }

  /** Asking again is safe: the same payment can be charged only once. */
  async function settleAgain(payment: Payment): Promise<void> {
    const { id, request, facilitator, dispatchedAt, readAt, callBytes } = payment;
    if (!facilitators.has(facilitator)) {
      tellMissing.facilitator(payment);
      return lookAgain(payment);
    }
    // The first request followed the claim, which takes longer for a large call.
    const mayBeUnderWay = readAt < dispatchedAt + extraMs(callBytes) + settleTimeoutMs;
    if (request === undefined || mayBeUnderWay || settler.isTooLate(payment)) return lookAgain(payment);
    // The chain may have taken long to answer, so the age is looked at once more.
    if (!(await journal.markDispatching(id, maxTimeoutMs))) return lookAgain(payment);
    const outcome = await facilitators.settle(request, facilitator);
    log.info("payment.settled_again", { callId: id, outcome: outcome.kind });
    const settlement =
      outcome.kind === "settled" ? await settler.confirm(payment, outcome.transaction) : undefined;
    return settlement === undefined ? lookAgain(payment) : enqueue(payment, settlement);
  }

  async function enqueue(payment: Payment, settlement: Settlement): Promise<void> {
    if (!(await settler.enqueueSettled(payment, settlement))) return;
    const { transaction, by } = settlement;
    log.info("payment.reconciled", { callId: payment.id, payer: payment.terms.payer, transaction, by });
  }

  return async function settleOpen(payment: Payment): Promise<void> {
    const chain = chains.of(payment.terms);
    if (chain === "unknown") return lookAgain(payment);
    if (chain !== "trusted") return askChain(chain, payment);
    if (!hasEnded(payment, clock(), GRACE_MS)) return settleAgain(payment);
    return settler.review(
      payment.id,
      "the authorization has expired, and the facilitator never reported the outcome",
    );
  };
}

function evidenceOf({ chain, eventOrder }: TokenChain, { terms, sinceBlock, searched }: Payment) {
  return chain.evidenceOf(toAuthorization(terms, eventOrder), { since: sinceBlock, searched });
}

type TellMissing = ReturnType<typeof createTellMissing>;

/** Tells an operator what a payment needs and the configuration no longer has: each token and facilitator every ten minutes. */
function createTellMissing(clock: Clock, log: Logger) {
  const told = new Map<string, number>();

  function tell(event: string, name: string, fields: Fields): void {
    if (clock() < (told.get(name) ?? 0)) return;
    log.error(event, fields);
    told.set(name, clock() + SELDOM_MS);
  }

  return {
    token({ id: callId, state, terms: { network, asset } }: Payment): void {
      tell("payment.token_unknown", `${network}/${asset}`, { callId, state, network, asset });
    },

    /** Nobody else may be asked to settle the payment: it ends as VOID, unless the chain shows that it was settled. */
    facilitator({ id: callId, state, facilitator: url, terms }: Payment): void {
      const facilitator = URL.canParse(url) ? new URL(url).origin : ""; // its path may hold a key
      const endsAt = toIso(Number(terms.valid_before) * 1000);
      tell("payment.facilitator_unknown", url, { callId, state, facilitator, endsAt });
    },
  };
}

type LookAgainDeps = Pick<ReconcileDeps, "journal" | "chains"> & { tellMissing: TellMissing };

/** Postpones the next look: a little at first, then for longer. */
function createLookAgain({ journal, chains, tellMissing }: LookAgainDeps) {
  /** The payment stays as it is until its token is configured again. Another replica may have the token, so it is soon handed back. */
  async function waitForToken(payment: Payment): Promise<void> {
    tellMissing.token(payment);
    await journal.lookAgain(payment.id, LOOK_MS_MAX * Math.random());
  }

  return async function lookAgain(payment: Payment): Promise<void> {
    if (chains.of(payment.terms) === "unknown") return waitForToken(payment);
    const ageMs = payment.readAt - payment.claimedAt;
    await journal.lookAgain(payment.id, Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, ageMs / 2)));
  };
}

/**
 * Checks on the chain what a facilitator has said. True once there is nothing more to find out. A payment that the chain
 * contradicts keeps its call, which the runner may have; the log and the journal tell of it.
 */
function createProve(deps: ReconcileDeps, tellMissing: TellMissing) {
  const { journal, chains, facilitators, settler, maxTimeoutMs, log } = deps;

  /** Settles again a payment that the chain does not show, as long as the payer waits for it. It can be charged only once. */
  async function settleVanished(payment: Payment, reason: string): Promise<void> {
    const { id, request, facilitator } = payment;
    if (request === undefined || settler.isTooLate(payment)) return;
    if (!facilitators.has(facilitator)) return tellMissing.facilitator(payment);
    if (!(await journal.markDispatching(id, maxTimeoutMs, PROVABLE))) return;
    const outcome = await facilitators.settle(request, facilitator);
    log.warn("payment.reorged", { callId: id, settledAgain: outcome.kind, reason });
  }

  async function markProven(payment: Payment, settlement: Settlement): Promise<true> {
    const found = await journal.markProven(payment, settlement);
    if (found === TRANSFER_TAKEN) return dispute(payment, paysForAnother(settlement));
    return true;
  }

  async function dispute(payment: Payment, said: string, finding?: string): Promise<true> {
    const { id, terms } = payment;
    const word = isOnWord(payment) ? " on the facilitator's word" : "";
    const reason = `the call was queued${word}, but the chain says: ${said}${finding === undefined ? "" : `; ${finding}`}`;
    await journal.markDisputed(id, reason);
    log.error("payment.disputed", { callId: id, payer: terms.payer, reason });
    return true;
  }

  return async function prove(payment: Payment): Promise<boolean> {
    const its = chains.of(payment.terms);
    if (payment.proven || payment.reason !== undefined || its === "trusted") return true;
    if (its === "unknown") return false;
    const { shown, finding } = await lookAtNamed(its, payment);
    if (shown !== undefined && its.chain.isDeep(shown.block)) return markProven(payment, shown.settlement);
    const evidence = await evidenceOf(its, payment);
    switch (evidence.kind) {
      case "open":
        if (evidence.seen === undefined && finding !== undefined) await settleVanished(payment, finding);
        return false;
      case "paid": {
        const { transaction, position } = evidence;
        const { by } = payment.settlement ?? { by: "chain" };
        return markProven(payment, toSettlement(payment, { transaction, position, by }));
      }
      default:
        return dispute(payment, evidence.reason, finding);
    }
  };
}

/** The states in which a payment counts as paid, and is looked for on the chain. */
const PROVABLE = { from: ["QUEUED", "FAILED", "INJECTED", "DISCARDED"] } as const;

/** Whether nothing but the facilitator's word says that it is paid: the chain has never shown it. */
function isOnWord({ settlement }: Payment): boolean {
  return settlement?.by === "facilitator" && settlement.position === undefined;
}

/** The settlement, if the transaction that it names shows it; else the reason why it does not. */
type Named =
  | { shown: { settlement: Settlement; block: bigint }; finding?: never }
  | { shown?: never; finding: string };

/** One question to the node; evidence takes several. */
async function lookAtNamed({ chain, eventOrder }: TokenChain, payment: Payment): Promise<Named> {
  const { settlement, terms, sinceBlock } = payment;
  if (settlement === undefined) return { finding: "no transaction is known" };
  const { transaction } = settlement;
  const proof = await chain.proofOf(transaction as `0x${string}`, toAuthorization(terms, eventOrder));
  if (proof === undefined) {
    return {
      finding:
        settlement.position === undefined
          ? `the chain does not show transaction ${transaction}: it never did, or it was dropped`
          : `the chain no longer shows transaction ${transaction}`,
    };
  }
  if (!showsTransfer(proof, settlement) || proof.block < sinceBlock)
    return { finding: `transaction ${transaction} does not pay for this call` };
  const position = proof.kind === "paid" ? { position: proof.position } : {};
  return { shown: { settlement: { ...settlement, ...position }, block: proof.block } };
}
