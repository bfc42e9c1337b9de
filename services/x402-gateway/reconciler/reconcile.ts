import { type PaymentJournal, paidQueueOf } from "../../../shared/payments/journal.ts";
import {
  type FacilitatorRequest,
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
import { hasEnded, paysForAnotherCall, type Settler } from "../payment/settle.ts";
import { approvalIn, withApproval } from "../schemes/gas-sponsoring.ts";

const LOOK_MS_MIN = 2000;
const LOOK_MS_MAX = 30_000;
/**
 * Interval of the checks of a payment whose call is queued and whose transfer is proven on the chain. It is also the minimum
 * interval between equal log lines about missing configuration.
 */
const RARE_CHECK_MS = 600_000;
/**
 * If no chain can be read, the facilitator is asked for the outcome until this long after the authorization has expired. Then an
 * operator must decide.
 */
const GRACE_MS = 60_000;

export type ReconcileDeps = {
  journal: PaymentJournal;
  chains: Chains;
  facilitators: Facilitators;
  settler: Settler;
  beginWrite: BeginWrite;
  partition: Partition;
  /** A settle request is repeated only this long after the previous one, because the facilitator may still answer that one. */
  settleTimeoutMs: number;
  /** Once this time has passed since the claim, no settle request is sent. */
  maxTimeoutMs: number;
  clock: Clock;
  log: Logger;
};

/**
 * Creates the function that advances one payment as far as the evidence allows, and schedules its next check. Several replicas
 * may run it for the same payment at once, and any of them may die halfway. So each step is a compare-and-set, or has no further
 * effect if it runs again. The bodies of calls are not read.
 */
export function createReconcile(deps: ReconcileDeps) {
  const { journal, chains, beginWrite, clock, log } = deps;
  const registry = openRegistry(deps.partition);
  const logMissing = createLogMissing(clock, log);
  const lookAgain = createLookAgain({ journal, chains, logMissing });
  const settleOpen = createSettleOpen(deps, logMissing, lookAgain);
  const prove = createProve(deps, logMissing);

  /**
   * Checks that a paid call is still in its queue. If the call is missing there, adds it again. But if its record says that the
   * call has ended in between, ends the payment instead. Otherwise compares the payment with the chain.
   */
  async function watchQueued(payment: Payment): Promise<void> {
    if ((await registry.find(payment.id, paidQueueOf(payment.terms))) === undefined) {
      const now = await journal.findWithoutCall(payment.id);
      if (now?.state === "QUEUED") return enqueueAgain(now);
      if (now?.state === "INJECTED" || now?.state === "DISCARDED") return endPayment(now);
    }
    if (!(await prove(payment))) return lookAgain(payment);
    await journal.reschedule(payment.id, RARE_CHECK_MS);
  }

  async function enqueueAgain(payment: Payment): Promise<void> {
    log.error("payment.call_missing", { callId: payment.id });
    const { callBytes } = payment;
    await beginWrite(callBytes)((lane) => journal.enqueueAgain(payment, lane), callBytes);
  }

  async function endPayment(payment: Payment): Promise<void> {
    if (await prove(payment)) return journal.markEnded(payment);
    return lookAgain(payment);
  }

  return async function reconcile(id: string): Promise<void> {
    const payment = await journal.findWithoutCall(id);
    if (payment === undefined) return journal.forget(id);
    switch (payment.state) {
      case "SETTLING":
        return settleOpen(payment);
      case "QUEUED":
      case "FAILED":
        return watchQueued(payment);
      case "INJECTED":
      case "DISCARDED":
        return endPayment(payment);
      case "REFUND_PENDING":
      case "REFUNDED":
        return journal.unschedule(id);
      case "VOID":
      case "REVIEW":
        return;
    }
  };
}

/**
 * Creates the function that finds the outcome of a payment in SETTLING, the state from the claim until the outcome is known. The
 * chain decides. While the chain shows no outcome, the settle request is repeated.
 */
function createSettleOpen(
  deps: ReconcileDeps,
  logMissing: LogMissing,
  lookAgain: (payment: Payment) => Promise<void>,
) {
  const { journal, chains, facilitators, settler, clock, log } = deps;
  const { settleTimeoutMs, maxTimeoutMs } = deps;

  async function askChain(tokenChain: TokenChain, payment: Payment): Promise<void> {
    const evidence = await evidenceOf(tokenChain, payment);
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

  /** Repeats the settle request. This is safe, because the same payment can be charged only once. */
  async function settleAgain(payment: Payment): Promise<void> {
    const { id, request, facilitator, dispatchedAt, readAt, callBytes } = payment;
    if (!facilitators.has(facilitator)) {
      logMissing.facilitator(payment);
      return lookAgain(payment);
    }
    // Before the first repetition, `dispatchedAt` is the time of the claim. The settle request is sent after the claim, and the
    // claim of a large call takes longer (`extraMs`).
    const mayBeInFlight = readAt < dispatchedAt + extraMs(callBytes) + settleTimeoutMs;
    if (request === undefined || mayBeInFlight || settler.isTooLate(payment)) return lookAgain(payment);
    const repeated = await requestToRepeat(request, payment, chains);
    if (repeated === undefined) return lookAgain(payment);
    // The node may have taken long to answer. So Redis checks once more that the claim is not too old for a settle request.
    if (!(await journal.markDispatching(id, maxTimeoutMs))) return lookAgain(payment);
    const outcome = await facilitators.settle(repeated, facilitator);
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

/**
 * Returns the request to settle a payment again. If the payer's allowance for Permit2 is large enough now, the approval in the
 * request is left out. An approval works only once, so the facilitator would fail to send it if it was already sent, by an
 * earlier request or by a stranger. Returns undefined if the allowance is too small and the approval cannot be used. The
 * facilitator would pay gas for a transaction that fails.
 */
async function requestToRepeat(
  request: FacilitatorRequest,
  { terms }: Payment,
  chains: Chains,
): Promise<FacilitatorRequest | undefined> {
  const tokenChain = chains.of(terms);
  const sent = typeof tokenChain === "string" ? undefined : approvalIn(request, terms);
  if (typeof tokenChain === "string" || sent === undefined) return request;
  const transfer = toAuthorization(terms, tokenChain.eventOrder);
  const { allowance } = await tokenChain.chain.stateOf(transfer);
  if (allowance >= transfer.value) return withApproval(request, undefined);
  const verdict = await tokenChain.chain.checkApproval({ transfer, approval: sent.approval });
  return verdict.kind === "fits" ? request : undefined;
}

type LogMissing = ReturnType<typeof createLogMissing>;

/**
 * Creates the functions that log a payment whose token or facilitator is no longer in the configuration. Each such token and
 * facilitator is logged at most every ten minutes.
 */
function createLogMissing(clock: Clock, log: Logger) {
  const nextLogAt = new Map<string, number>();

  function logRarely(event: string, name: string, fields: Fields): void {
    if (clock() < (nextLogAt.get(name) ?? 0)) return;
    log.error(event, fields);
    nextLogAt.set(name, clock() + RARE_CHECK_MS);
  }

  return {
    token({ id: callId, state, terms: { network, asset } }: Payment): void {
      logRarely("payment.token_unknown", `${network}/${asset}`, { callId, state, network, asset });
    },

    /**
     * Logs a payment whose facilitator is no longer configured. No other facilitator may settle the payment, so it ends as VOID, unless the
     * chain shows that it was settled.
     */
    facilitator({ id: callId, state, facilitator: url, terms }: Payment): void {
      const facilitator = URL.canParse(url) ? new URL(url).origin : ""; // The path of the URL may hold a key.
      const endsAt = toIso(Number(terms.valid_before) * 1000);
      logRarely("payment.facilitator_unknown", url, { callId, state, facilitator, endsAt });
    },
  };
}

type LookAgainDeps = Pick<ReconcileDeps, "journal" | "chains"> & { logMissing: LogMissing };

/** Creates the function that schedules the next check of a payment. The interval grows with the payment's age. */
function createLookAgain({ journal, chains, logMissing }: LookAgainDeps) {
  /**
   * Postpones a payment whose token is not in this replica's configuration. It is due again within 30 seconds, because another
   * replica may have the token configured.
   */
  async function waitForToken(payment: Payment): Promise<void> {
    logMissing.token(payment);
    await journal.reschedule(payment.id, LOOK_MS_MAX * Math.random());
  }

  return async function lookAgain(payment: Payment): Promise<void> {
    if (chains.of(payment.terms) === "unknown") return waitForToken(payment);
    const ageMs = payment.readAt - payment.claimedAt;
    await journal.reschedule(payment.id, Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, ageMs / 2)));
  };
}

/**
 * Creates the function that checks on the chain whether a payment was made as its facilitator reported. It resolves with true
 * once nothing is left to check. If the chain contradicts the payment, its call stays queued, because the runner may have it
 * already. The contradiction is logged, and recorded in the journal for an operator.
 */
function createProve(deps: ReconcileDeps, logMissing: LogMissing) {
  const { journal, chains, facilitators, settler, maxTimeoutMs, log } = deps;

  /**
   * Sends a settle request again for a payment whose transaction the chain does not show, or no longer shows. Sends none if it is
   * too late. The repetition is safe, because a payment can be charged only once.
   */
  async function settleVanished(payment: Payment, reason: string): Promise<void> {
    const { id, request, facilitator } = payment;
    if (request === undefined || settler.isTooLate(payment)) return;
    if (!facilitators.has(facilitator)) return logMissing.facilitator(payment);
    const repeated = await requestToRepeat(request, payment, chains);
    if (repeated === undefined) return;
    if (!(await journal.markDispatching(id, maxTimeoutMs, PROVABLE))) return;
    const outcome = await facilitators.settle(repeated, facilitator);
    log.warn("payment.reorged", { callId: id, settledAgain: outcome.kind, reason });
  }

  async function markProven(payment: Payment, settlement: Settlement): Promise<true> {
    const found = await journal.markProven(payment, settlement);
    if (found === TRANSFER_TAKEN) return dispute(payment, paysForAnotherCall(settlement));
    return true;
  }

  async function dispute(payment: Payment, said: string, finding?: string): Promise<true> {
    const { id, terms } = payment;
    const word = isOnlyReported(payment) ? " on the facilitator's word" : "";
    const reason = `the call was queued${word}, but the chain says: ${said}${finding === undefined ? "" : `; ${finding}`}`;
    await journal.markDisputed(id, reason);
    log.error("payment.disputed", { callId: id, payer: terms.payer, reason });
    return true;
  }

  return async function prove(payment: Payment): Promise<boolean> {
    const tokenChain = chains.of(payment.terms);
    if (payment.proven || payment.reason !== undefined || tokenChain === "trusted") return true;
    if (tokenChain === "unknown") return false;
    const { shown, finding } = await readNamedTransaction(tokenChain, payment);
    if (shown !== undefined && tokenChain.chain.isDeep(shown.block))
      return markProven(payment, shown.settlement);
    const evidence = await evidenceOf(tokenChain, payment);
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

/** States of a payment that counts as paid, and that is still checked on the chain. */
const PROVABLE = { from: ["QUEUED", "FAILED", "INJECTED", "DISCARDED"] } as const;

/** Whether only the facilitator has reported the payment, and the chain has never shown it. */
function isOnlyReported({ settlement }: Payment): boolean {
  return settlement?.by === "facilitator" && settlement.position === undefined;
}

/**
 * Result of reading the transaction that a settlement names. If the transaction shows the payment, `shown` has the settlement.
 * Otherwise `finding` says why it does not.
 */
type NamedTransaction =
  | { shown: { settlement: Settlement; block: bigint }; finding?: never }
  | { shown?: never; finding: string };

/**
 * Reads the transaction that the settlement names. This takes one request to the node. A search of the chain (`evidenceOf`) takes
 * several.
 */
async function readNamedTransaction(
  { chain, eventOrder }: TokenChain,
  payment: Payment,
): Promise<NamedTransaction> {
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
