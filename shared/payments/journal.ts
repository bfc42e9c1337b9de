import { wellFormedJson } from "../platform/text/well-formed-json.ts";
import { jobOf, type QueueName, queueOf } from "../queue/queue-name.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { toLine } from "../redis/audit/audit.ts";
import type { Partition } from "../redis/partition.ts";
import { confirmed } from "../redis/prover.ts";
import { byLane, type Lane } from "../redis/retry-write.ts";
import { readFailed, unlessUnreadable } from "../redis/unreadable.ts";
import {
  type Decision,
  fieldsOf,
  type NewPayment,
  type Payment,
  type PaymentState,
  type PaymentTerms,
  revenueOf,
  type Settlement,
  toPayment,
} from "./payment.ts";
import {
  ACKNOWLEDGE,
  type CALL_DROPPED,
  CLAIM,
  type Claimed,
  DISPATCHING,
  DISPUTE,
  DROP,
  type DROPPED,
  ENDED,
  ENQUEUE_AGAIN,
  ENQUEUE_SETTLED,
  FORGET,
  LEASE_DUE,
  type NonceRefusal,
  PROVEN,
  READ,
  READ_WITHOUT_CALL,
  RESCHEDULE,
  REVIEW,
  SEARCHED,
  type TRANSFER_TAKEN,
  VOID,
} from "./scripts.ts";

/**
 * Time for which a payment is kept after its call has ended. A client can repeat its request and get the first answer only
 * within this time.
 */
const REMEMBERED_MS = 30 * 86_400_000;

type ClaimOptions = {
  /**
   * Unique id of the request that claims. If the reply to its claim is lost, the request claims again with this id, and gets
   * the outcome `new` again.
   */
  by: string;
  /** Limit on the payer's open payments, which are SETTLING or in REVIEW. */
  openMax: number;
  /**
   * Rate-limit keys of the client's address, the narrowest first. The memory of unsettled payments is limited for each of
   * them.
   */
  clients: readonly string[];
  /**
   * Limit on the bytes of all unsettled payments. Each client may use an eighth of this limit, and less if other clients use
   * much (usage.lua).
   */
  unsettledBytesMax: number;
  /** Time in ms after which the reconciler checks the payment. */
  dueInMs: number;
  /**
   * Set if the caller's nonce is kept in another partition, which must reserve it before the claim. It is that partition's
   * answer: "" if the nonce is reserved, or the reason why it is refused.
   */
  reserved?: NonceRefusal | "" | undefined;
};

/**
 * Time for which a void payment is kept after its authorization has ended. `byProof`: it is certain that the payment can
 * never be made. This time is short, because a client can claim any number of payments and never settle them. `byOperator`:
 * an operator has decided. This time is longer, because the decision may be wrong, and clients cannot cause many such
 * decisions.
 */
const VOID_REMEMBERED_MS = { byProof: 3_600_000, byOperator: 86_400_000 };

/** The states from which a change of state may begin. If the payment is in any other state, nothing is changed. */
type FromStates = { from?: readonly PaymentState[] };

/**
 * Details of a payment that becomes void. `dispatches` is the number of settle requests that the caller knows of. `act` is an
 * operator's audit line, written in the same step.
 */
type VoidDetails = { reason: string; decided?: Decision; dispatches?: number; act?: MoneyAct };
type MoneyAct = AuditEntry<"money">;

type SettlementEvidence = { settlement: Settlement; proven: boolean };

/**
 * Journal that stores the state of each payment on disk, before and after money moves. payment.ts defines the states. Every
 * change is one atomic script (scripts.ts), and the journal does not repeat it after a failure. A record that cannot be read
 * stays unchanged: reads and changes throw `record.unreadable`. `large` is the same partition on the connection for large
 * writes and reads.
 */
export class PaymentJournal {
  readonly #redis;
  readonly #keys: Keys;
  readonly #prefix: string;
  readonly #scripts;

  constructor(partition: Partition, large = partition) {
    this.#redis = partition.redis;
    this.#keys = partition.keys;
    this.#prefix = partition.prefix;
    this.#scripts = scriptsOn(partition, large);
  }

  /**
   * Claims a payment: stores it with its whole call before money moves. If the payment is already known or cannot be claimed,
   * resolves with the reason.
   */
  async claim(
    payment: NewPayment,
    { clients, reserved, ...claiming }: ClaimOptions,
    lane: Lane = "small",
  ): Promise<Claimed> {
    const { call, route, callerNonce, quoteUse } = payment;
    return this.#scripts.claim[lane](claimKeys(this.#keys, payment), {
      ...claiming,
      id: call.id,
      bodySha256: call.sha256,
      route,
      windowMs: REMEMBERED_MS,
      nonceUntil: reserved === undefined ? (callerNonce?.keptUntil ?? 0) : 0,
      nonceRefusal: reserved,
      quoteUntil: quoteUse?.keptUntil ?? 0,
      clients: JSON.stringify(clients),
      fields: fieldsOf(payment),
    });
  }

  /**
   * Returns the payment with its call. The call's body may be large, so use `findWithoutCall` if the call is not needed.
   * Reads throw `queue.unavailable`.
   */
  async find(id: string): Promise<Payment | undefined> {
    return toPayment(id, await this.#scripts.read(this.#keysOf(id)).catch(rethrow));
  }

  /** Returns the payment with all fields except `call`, so that the call's body, which may be large, is not read. */
  async findWithoutCall(id: string): Promise<Payment | undefined> {
    return toPayment(id, await this.#scripts.readWithoutCall(this.#keysOf(id)).catch(rethrow));
  }

  /**
   * Resolves once a failover can no longer undo what was read before. Throws `queue.outcome_unknown` or `queue.unavailable`.
   */
  confirm(): Promise<void> {
    return confirmed(this.#redis);
  }

  /** Reads the id of the call that this payer bought under this identifier or idempotency key. */
  async findIdentified(payer: string, identifier: string): Promise<string | undefined> {
    const key = this.#keys.paymentIdentifier(payer, identifier);
    return (await this.#redis.hget(key, "id").catch(rethrow)) ?? undefined;
  }

  /** Reads the id of the call whose payment has used up this operator's quote. */
  async findQuoted(digest: string): Promise<string | undefined> {
    return (await this.#redis.get(this.#keys.usedQuote(digest)).catch(rethrow)) ?? undefined;
  }

  /** Counts the payer's open payments, which are SETTLING or in REVIEW. */
  async countOpen(payer: string): Promise<number> {
    return this.#redis.scard(this.#keys.openPayments(payer)).catch(rethrow);
  }

  /**
   * Leases up to `count` due payments to this caller, and resolves with their ids. No other caller gets them before the lease
   * ends.
   */
  leaseDue(asked: { leaseMs: number; count: number }): Promise<string[]> {
    return this.#scripts.leaseDue({ due: this.#keys.paymentsDue }, asked);
  }

  /** Removes a payment from all lists if its record no longer exists. */
  async forget(id: string): Promise<void> {
    const openPrefix = this.#keys.openPayments("");
    await this.#scripts.forget(this.#keysOf(id), { id, openPrefix });
  }

  /** Removes a payment from the reconciler's list. */
  async unschedule(id: string): Promise<void> {
    await this.#redis.zrem(this.#keys.paymentsDue, id);
  }

  /**
   * Sets that the reconciler checks the payment after `afterMs`. Resolves with the time of that check (unix ms by Redis'
   * clock). A payment that is not on the reconciler's list is not added.
   */
  reschedule(id: string, afterMs: number): Promise<number> {
    return this.#scripts.reschedule({ due: this.#keys.paymentsDue }, { id, ms: afterMs });
  }

  /**
   * Records that a payment is settled. SETTLING (or, for an operator, REVIEW) becomes QUEUED, and the call is added to its
   * queue. If the call was dropped, the state becomes DISCARDED instead. The reconciler checks the payment again after
   * `dueInMs`. If the chain has shown the payment's transfer, that transfer is assigned to this call and can pay for no
   * other. An operator's `act` is written to the audit log in the same step. Resolves with the state found.
   */
  async enqueueSettled(
    payment: Payment,
    { settlement, proven }: SettlementEvidence,
    { dueInMs, from = ["SETTLING"], act }: FromStates & { dueInMs: number; act?: MoneyAct },
    lane: Lane = "small",
  ): Promise<FoundState> {
    const { id, terms } = payment;
    const transfer = transferKey(this.#keys, terms, settlement);
    const own = { open: this.#keys.openPayments(terms.payer), transfer: transfer ?? this.#keys.payment(id) };
    const what = { settlement: wellFormedJson(settlement), proven, hasTransfer: transfer !== undefined };
    const words = { ...this.queueNames(payment), ...what, dueInMs, line: act && toLine(act), from };
    return await this.#scripts.enqueueSettled[lane]({ ...this.#keysOf(id), ...own }, words);
  }

  /** Adds the call of a QUEUED payment to its queue again. Resolves with the state found. */
  enqueueAgain(payment: Payment, lane: Lane = "small"): Promise<PaymentState | undefined> {
    const words = this.queueNames(payment);
    const { queue, id } = words;
    const own = { job: this.#keys.inQueue(queue, id), attempts: this.#keys.attempts(id) };
    return this.#scripts.enqueueAgain[lane]({ ...this.#keysOf(id), ...own }, words);
  }

  /**
   * Changes SETTLING (or, for an operator, REVIEW) to VOID, and deletes the body. `dispatches` may be the number of settle
   * requests that the caller knows of. If another number was sent, changes nothing and resolves with undefined. `now` is this
   * process's time. The payment is kept as long as this process's clock or Redis' clock says that the chain may still accept
   * the authorization.
   */
  async markVoid(
    payment: Payment,
    { reason, decided, dispatches, act }: VoidDetails,
    { now, from = ["SETTLING"] }: FromStates & { now: number },
  ): Promise<PaymentState | undefined> {
    const { id, terms } = payment;
    const rememberedMs = VOID_REMEMBERED_MS[decided === undefined ? "byProof" : "byOperator"];
    const keepMs =
      Math.max(0, Number(terms.valid_before) * 1000 - Math.min(now, payment.readAt)) + rememberedMs;
    const own = {
      open: this.#keys.openPayments(terms.payer),
      ...nameKeys(this.#keys, payment),
      ...usedKeys(this.#keys, payment),
    };
    const line = act && toLine(act);
    const words = {
      id,
      keepMs,
      reason,
      decided: decided && JSON.stringify(decided),
      dispatches,
      line,
      from,
    };
    return await this.#scripts.toVoid({ ...this.#keysOf(id), ...own }, words);
  }

  /** Changes SETTLING to REVIEW, because the evidence is contradictory and an operator must decide. */
  markForReview(id: string, reason: string): Promise<PaymentState | undefined> {
    return this.#scripts.review(this.#keysOf(id), { id, reason });
  }

  /**
   * Counts a further settle request before it is sent, so that the count is never too low. Resolves with false if the request
   * must not be sent: the payment is in another state, its claim is older than `maxAgeMs`, or its call was dropped.
   */
  markDispatching(id: string, maxAgeMs: number, { from = ["SETTLING"] }: FromStates = {}): Promise<boolean> {
    return this.#scripts.dispatching(this.#keysOf(id), { maxAgeMs, from });
  }

  /**
   * Records that the chain has shown this settlement at the configured depth. Its transfer is assigned to this call, and can
   * pay for no other.
   */
  async markProven({ id, terms }: Payment, settlement: Settlement): Promise<FoundState> {
    const transfer = transferKey(this.#keys, terms, settlement);
    if (transfer === undefined) throw new Error("a proven settlement must have a transfer");
    return await this.#scripts.proven(
      { ...this.#keysOf(id), transfer },
      { id, settlement: wellFormedJson(settlement) },
    );
  }

  /** Records that a search of the chain found no use of the authorization up to this block. */
  markSearched(id: string, block: bigint): Promise<void> {
    return this.#scripts.searched({ payment: this.#keys.payment(id) }, { block: String(block) });
  }

  /**
   * Records evidence against a payment that counts as paid, so that an operator sees it. The runner may already have its
   * call. If the payment does not count as paid, changes nothing. The payment is counted as disputed on the day (UTC) of its
   * settlement.
   */
  async markDisputed(id: string, reason: string): Promise<void> {
    const payment = await this.findWithoutCall(id).catch(unlessUnreadable);
    const revenue = payment && revenueOf(payment);
    // Without `row`, the script counts nothing. Then no day is known, so the payment's own key is passed instead of the key
    // of the day.
    const ofDay = revenue === undefined ? this.#keys.payment(id) : this.#keys.disputed(revenue.day);
    const { row, amount } = revenue ?? {};
    await this.#scripts.dispute({ ...this.#keysOf(id), ofDay }, { id, reason, row, amount });
  }

  /**
   * Records that an operator has seen the evidence against the payment, and writes an audit line. Resolves with false if
   * there is no such evidence, or it was acknowledged before.
   */
  acknowledge(id: string, decision: Decision, act: MoneyAct): Promise<boolean> {
    return this.#scripts.acknowledge(this.#keysOf(id), {
      id,
      decision: JSON.stringify(decision),
      line: toLine(act),
    });
  }

  /**
   * Deletes the body of a payment that is SETTLING or in REVIEW, and writes an audit line in the same step. No settle request
   * is sent after that, and money that still arrives must be refunded. Resolves with `DROPPED` if the body is deleted, by
   * this call or before. Otherwise resolves with the state found.
   */
  async drop(
    id: string,
    decision: Decision,
    act: MoneyAct,
  ): Promise<PaymentState | typeof DROPPED | undefined> {
    return await this.#scripts.drop(this.#keysOf(id), {
      id,
      decision: JSON.stringify(decision),
      line: toLine(act),
    });
  }

  /** Records that the call has ended. Deletes the data that was needed only to finish the call, and lets the rest expire. */
  async markEnded(payment: Payment): Promise<void> {
    const { id, terms, settlement } = payment;
    const transfer = (settlement && transferKey(this.#keys, terms, settlement)) ?? this.#keys.payment(id);
    await this.#scripts.ended({ ...this.#keysOf(id), ...nameKeys(this.#keys, payment), transfer }, { id });
  }

  #keysOf(id: string) {
    return keysOf(this.#keys, id);
  }

  /** Returns the arguments with which scripts find the payment's call and its queue. */
  queueNames({ id, terms }: Payment) {
    const queue = paidQueueOf(terms);
    return { prefix: this.#prefix, job: jobOf(queue), queue, id };
  }
}

/**
 * Binds the scripts to their connections. Scripts that write a call have one connection for small calls and one for large
 * ones.
 */
function scriptsOn(partition: Partition, large: Partition) {
  const { redis } = partition;
  return {
    claim: byLane(partition, large, CLAIM),
    enqueueSettled: byLane(partition, large, ENQUEUE_SETTLED),
    enqueueAgain: byLane(partition, large, ENQUEUE_AGAIN),
    read: READ.on(redis),
    readWithoutCall: READ_WITHOUT_CALL.on(redis),
    forget: FORGET.on(redis),
    leaseDue: LEASE_DUE.on(redis),
    reschedule: RESCHEDULE.on(redis),
    toVoid: VOID.on(redis),
    review: REVIEW.on(redis),
    dispatching: DISPATCHING.on(redis),
    proven: PROVEN.on(redis),
    dispute: DISPUTE.on(redis),
    searched: SEARCHED.on(redis),
    acknowledge: ACKNOWLEDGE.on(redis),
    drop: DROP.on(redis),
    ended: ENDED.on(redis),
  };
}

const rethrow = readFailed("payments cannot be read");

/**
 * Returns the keys of the caller's nonce and the quote that the payment used up. If there was no nonce, its key is that of
 * the nonce "none", which is never set.
 */
function usedKeys(keys: Keys, { callerNonce = "none", terms }: Payment) {
  return { callerNonce: keys.callerNonce(callerNonce), quote: keys.usedQuote(terms.quote_digest) };
}

/**
 * Returns the keys of a claim. CLAIM always gets the same number of keys, and Redis Cluster requires all of them in one slot.
 * So if a key is not needed, the payment's own key is in its place.
 */
function claimKeys(keys: Keys, { call, callerNonce, quoteUse, ...payment }: NewPayment) {
  const own = keys.payment(call.id);
  return {
    ...keysOf(keys, call.id),
    ...nameKeys(keys, { id: call.id, ...payment }),
    open: keys.openPayments(payment.terms.payer),
    callerNonce: callerNonce === undefined ? own : keys.callerNonce(callerNonce.hash),
    quote: quoteUse === undefined ? own : keys.usedQuote(quoteUse.digest),
    drained: keys.paymentsDrained,
    deployment: keys.deployment,
  };
}

/** Outcome of a change: the state that the payment had before, or `TRANSFER_TAKEN` or `CALL_DROPPED` (scripts.ts). */
export type FoundState = PaymentState | undefined | typeof TRANSFER_TAKEN | typeof CALL_DROPPED;

type Keys = Partition["keys"];

/** Returns the keys of a payment, and those of the lists and counts that all payments share. */
function keysOf(keys: Keys, id: string) {
  const { paymentsDue: due, payments, paymentsUnresolved: unresolved, paymentsInReview: inReview } = keys;
  const own = { record: keys.record(id), payment: keys.payment(id) };
  return {
    ...own,
    due,
    payments,
    unresolved,
    inReview,
    disputed: keys.paymentsDisputed,
    discarded: keys.paymentsDiscarded,
    usage: keys.paymentsUsage,
    usageBy: keys.paymentsUsageBy,
    money: keys.audit("money"),
  };
}

/** Returns the queue to which the call of a payment is added. */
export function paidQueueOf({ service_id, job_index }: PaymentTerms): QueueName {
  return queueOf({ origin: "x402", service_id, job_id: job_index });
}

/**
 * Returns the keys under which this purchase is found by the payer's names for it: its identifier and its idempotency key,
 * which may be equal. If a name is missing, the payment's own key is in its place, because a script always gets both keys.
 */
export function nameKeys(
  keys: Keys,
  { id, terms, identifier, idempotencyKey }: Pick<Payment, "id" | "terms" | "identifier" | "idempotencyKey">,
): { identifier: string; idempotencyKey: string } {
  const keyOf = (name: string | undefined) =>
    name === undefined ? keys.payment(id) : keys.paymentIdentifier(terms.payer, name);
  return { identifier: keyOf(identifier), idempotencyKey: keyOf(idempotencyKey) };
}

/**
 * Returns the key of the transfer that made the payment, by its position on the chain. Undefined if the chain has not shown
 * the transfer.
 */
export function transferKey(
  keys: Keys,
  { network }: PaymentTerms,
  { transaction, position }: Settlement,
): string | undefined {
  return position === undefined ? undefined : keys.paidTransfer(network, transaction.toLowerCase(), position);
}
