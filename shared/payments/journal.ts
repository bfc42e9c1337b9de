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
  LOOK,
  LOOK_AGAIN,
  type NonceRefusal,
  PROVEN,
  READ,
  REVIEW,
  SEARCHED,
  TAKE_DUE,
  type TRANSFER_TAKEN,
  VOID,
} from "./scripts.ts";

/** How long a payment is kept after its call has ended: longer than anybody replays it on purpose. */
const REMEMBERED_MS = 30 * 86_400_000;

type Claiming = {
  /** Identifies the claiming request: its own repeat, after a lost reply, is `new` again. */
  by: string;
  /** Limit on the payer's open payments. */
  openMax: number;
  /** Rate-limit keys of the client's address, the narrowest first. */
  clients: readonly string[];
  /** Limit on the bytes of all unsettled payments. Each client may use an eighth of it, and less if others use much (`USAGE`). */
  unsettledBytesMax: number;
  /** After how many ms the reconciler looks. */
  dueInMs: number;
  /** Why the nonce's own partition refuses it, or ""; undefined if it is in this one. */
  reserved?: NonceRefusal | "" | undefined;
};

/**
 * How long a void payment is kept beyond its authorization's end. Whoever has many payments claimed that never settle leaves as many void ones
 * behind, so they do not stay long. What an operator has decided may be wrong, and is not a stranger's to fill Redis with.
 */
const VOID_REMEMBERED_MS = { byProof: 3_600_000, byOperator: 86_400_000 };

/** The states that a transition leaves. If it finds another one, it changes nothing. */
type From = { from?: readonly PaymentState[] };

/** `act` is an operator's line in the audit, which is written in the same step. */
type Ending = { reason: string; decided?: Decision; dispatches?: number; act?: MoneyAct };
type MoneyAct = AuditEntry<"money">;

type Settled = { settlement: Settlement; proven: boolean };

/**
 * The settlement journal: what is on disk of a payment before money moves, and what has happened to it since. The states are
 * in payment.ts. Every change is one atomic script (scripts.ts); none is retried here. What cannot be read is left
 * alone: reads and changes throw `record.unreadable`. `large` is the same partition over the connection for large writes and reads.
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

  /** Writes a whole paid call before money moves, or returns what is known of it. */
  async claim(
    payment: NewPayment,
    { clients, reserved, ...claiming }: Claiming,
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

  /** The whole payment, for whoever shows it: the body may be large. This and the other reads throw `queue.unavailable`. */
  async find(id: string): Promise<Payment | undefined> {
    return toPayment(id, await this.#scripts.read(this.#keysOf(id)).catch(rethrow));
  }

  /** Like `find`, but without `call`, so that a large body costs nothing. */
  async look(id: string): Promise<Payment | undefined> {
    return toPayment(id, await this.#scripts.look(this.#keysOf(id)).catch(rethrow));
  }

  /** Resolves once a failover cannot undo what was read before. Throws `queue.outcome_unknown` and `queue.unavailable`. */
  confirm(): Promise<void> {
    return confirmed(this.#redis);
  }

  /** The id of the call that this payer bought under this identifier or idempotency key. */
  async findIdentified(payer: string, identifier: string): Promise<string | undefined> {
    const key = this.#keys.paymentIdentifier(payer, identifier);
    return (await this.#redis.hget(key, "id").catch(rethrow)) ?? undefined;
  }

  /** The id of the call whose payment has used up this operator's quote. */
  async findQuoted(digest: string): Promise<string | undefined> {
    return (await this.#redis.get(this.#keys.usedQuote(digest)).catch(rethrow)) ?? undefined;
  }

  /** How many of the payer's payments are open: SETTLING or in REVIEW. */
  async countOpen(payer: string): Promise<number> {
    return this.#redis.scard(this.#keys.openPayments(payer)).catch(rethrow);
  }

  /** Ids of up to `count` due payments. No other caller gets them before the lease has ended. */
  takeDue(asked: { leaseMs: number; count: number }): Promise<string[]> {
    return this.#scripts.takeDue({ due: this.#keys.paymentsDue }, asked);
  }

  /** Takes a payment off all lists if nothing is known of its call any more. */
  async forget(id: string): Promise<void> {
    const openPrefix = this.#keys.openPayments("");
    await this.#scripts.forget(this.#keysOf(id), { id, openPrefix });
  }

  /** Takes a payment off the reconciler's list. */
  async leave(id: string): Promise<void> {
    await this.#redis.zrem(this.#keys.paymentsDue, id);
  }

  /** Sets when the reconciler looks again. Does nothing if the payment is not on its list. Resolves with when it looks (unix ms by Redis' clock). */
  lookAgain(id: string, afterMs: number): Promise<number> {
    return this.#scripts.lookAgain({ due: this.#keys.paymentsDue }, { id, ms: afterMs });
  }

  /**
   * The payment is settled: SETTLING (or, for an operator, REVIEW) becomes QUEUED, and the call is added to its queue; or DISCARDED,
   * if its call was dropped. The reconciler looks after `dueInMs`. If the chain has shown the transfer, it pays for this call alone from
   * now on. An operator's `act` is written to the audit in the same step. Resolves with the state found.
   */
  async enqueueSettled(
    payment: Payment,
    { settlement, proven }: Settled,
    { dueInMs, from = ["SETTLING"], act }: From & { dueInMs: number; act?: MoneyAct },
    lane: Lane = "small",
  ): Promise<FoundState> {
    const { id, terms } = payment;
    const transfer = transferKey(this.#keys, terms, settlement);
    const own = { open: this.#keys.openPayments(terms.payer), transfer: transfer ?? this.#keys.payment(id) };
    const what = { settlement: wellFormedJson(settlement), proven, hasTransfer: transfer !== undefined };
    const words = { ...this.#named(payment), ...what, dueInMs, line: act && toLine(act), from };
    return await this.#scripts.enqueueSettled[lane]({ ...this.#keysOf(id), ...own }, words);
  }

  /** Adds the call of a payment that is QUEUED to its queue again. Resolves with the state found. */
  enqueueAgain(payment: Payment, lane: Lane = "small"): Promise<PaymentState | undefined> {
    const words = this.#named(payment);
    const { queue, id } = words;
    const own = { job: this.#keys.inQueue(queue, id), attempts: this.#keys.attempts(id) };
    return this.#scripts.enqueueAgain[lane]({ ...this.#keysOf(id), ...own }, words);
  }

  /**
   * SETTLING (or, for an operator, REVIEW) becomes VOID, and the body is dropped. With `dispatches` only if no more settle
   * requests were sent: undefined if they were. `now` is by the process's clock: while it or Redis' says that the chain may still take the
   * authorization, the payment is remembered.
   */
  async markVoid(
    payment: Payment,
    { reason, decided, dispatches, act }: Ending,
    { now, from = ["SETTLING"] }: From & { now: number },
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

  /** SETTLING becomes REVIEW, because the evidence is contradictory and an operator has to decide. */
  markForReview(id: string, reason: string): Promise<PaymentState | undefined> {
    return this.#scripts.review(this.#keysOf(id), { id, reason });
  }

  /**
   * Counts a settle request that is about to be sent again, so that the count is never below what was sent. False if it must not be sent:
   * the payment is in another state, was claimed so long ago, or its call was dropped.
   */
  markDispatching(id: string, maxAgeMs: number, { from = ["SETTLING"] }: From = {}): Promise<boolean> {
    return this.#scripts.dispatching(this.#keysOf(id), { maxAgeMs, from });
  }

  /** Records that the chain has shown this settlement at the configured depth: its transfer pays for this call alone. */
  async markProven({ id, terms }: Payment, settlement: Settlement): Promise<FoundState> {
    const transfer = transferKey(this.#keys, terms, settlement);
    if (transfer === undefined) throw new Error("a proven settlement must have a transfer");
    return await this.#scripts.proven(
      { ...this.#keysOf(id), transfer },
      { id, settlement: wellFormedJson(settlement) },
    );
  }

  /** Records that no use of the authorization was found up to this block. */
  markSearched(id: string, block: bigint): Promise<void> {
    return this.#scripts.searched({ payment: this.#keys.payment(id) }, { block: String(block) });
  }

  /**
   * Records, for an operator, what contradicts a payment whose call may already be with the runner. Does nothing if it does not count as paid.
   * It counts as disputed on the day (UTC) on which it was settled.
   */
  async markDisputed(id: string, reason: string): Promise<void> {
    const payment = await this.look(id).catch(unlessUnreadable);
    const revenue = payment && revenueOf(payment);
    // Without a row nothing is counted, so the key does not matter.
    const ofDay = revenue === undefined ? this.#keys.payment(id) : this.#keys.disputed(revenue.day);
    const { row, amount } = revenue ?? {};
    await this.#scripts.dispute({ ...this.#keysOf(id), ofDay }, { id, reason, row, amount });
  }

  /** Records, with its line in the audit, that an operator has seen what contradicts the payment. False if nothing does, or an operator has seen it before. */
  acknowledge(id: string, decision: Decision, act: MoneyAct): Promise<boolean> {
    return this.#scripts.acknowledge(this.#keysOf(id), {
      id,
      decision: JSON.stringify(decision),
      line: toLine(act),
    });
  }

  /**
   * Drops the body of a payment that is SETTLING or in REVIEW, with its line in the audit, in one step: no settle is sent any
   * more, and money that comes all the same is due back. Resolves with the state found, or `DROPPED`, also if it was dropped before.
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

  /** The call has ended: drops what was needed to finish it, and lets the rest expire. */
  async markEnded(payment: Payment): Promise<void> {
    const { id, terms, settlement } = payment;
    const transfer = (settlement && transferKey(this.#keys, terms, settlement)) ?? this.#keys.payment(id);
    await this.#scripts.ended({ ...this.#keysOf(id), ...nameKeys(this.#keys, payment), transfer }, { id });
  }

  #keysOf(id: string) {
    return keysOf(this.#keys, id);
  }

  /** The queue of the payment's call, as the scripts that add the call name it. */
  #named({ id, terms }: Payment) {
    const queue = paidQueueOf(terms);
    return { prefix: this.#prefix, job: jobOf(queue), queue, id };
  }
}

/** The scripts on their connections; those that write a call have one for each lane. */
function scriptsOn(partition: Partition, large: Partition) {
  const { redis } = partition;
  return {
    claim: byLane(partition, large, CLAIM),
    enqueueSettled: byLane(partition, large, ENQUEUE_SETTLED),
    enqueueAgain: byLane(partition, large, ENQUEUE_AGAIN),
    read: READ.on(redis),
    look: LOOK.on(redis),
    forget: FORGET.on(redis),
    takeDue: TAKE_DUE.on(redis),
    lookAgain: LOOK_AGAIN.on(redis),
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

/** The keys of what the payment used up. If it used no caller's nonce, the key is one that is never set. */
function usedKeys(keys: Keys, { callerNonce = "none", terms }: Payment) {
  return { callerNonce: keys.callerNonce(callerNonce), quote: keys.usedQuote(terms.quote_digest) };
}

/** A key without use here repeats the payment's own key, because Redis Cluster wants every key declared. */
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

/**
 * The state that a change has found; that it was not made, because the transfer pays for another call already; or that it was made of a
 * payment whose call was dropped.
 */
export type FoundState = PaymentState | undefined | typeof TRANSFER_TAKEN | typeof CALL_DROPPED;

type Keys = Partition["keys"];

/** The keys of a payment, and those of the lists and counts that all payments share. */
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

/** The queue that the call of a payment is added to. */
export function paidQueueOf({ service_id, job_index }: PaymentTerms): QueueName {
  return queueOf({ origin: "x402", service_id, job_id: job_index });
}

/**
 * Keys of the names that the payer gave this purchase: its identifier and its idempotency key, which may be the same. In place of a name
 * that is missing stands the payment's own key, because Redis Cluster wants every key declared.
 */
export function nameKeys(
  keys: Keys,
  { id, terms, identifier, idempotencyKey }: Pick<Payment, "id" | "terms" | "identifier" | "idempotencyKey">,
): { identifier: string; idempotencyKey: string } {
  const keyOf = (name: string | undefined) =>
    name === undefined ? keys.payment(id) : keys.paymentIdentifier(terms.payer, name);
  return { identifier: keyOf(identifier), idempotencyKey: keyOf(idempotencyKey) };
}

/** The key of the transfer that pays, by its place in the chain. Undefined if the chain has not shown it. */
export function transferKey(
  keys: Keys,
  { network }: PaymentTerms,
  { transaction, position }: Settlement,
): string | undefined {
  return position === undefined ? undefined : keys.paidTransfer(network, transaction.toLowerCase(), position);
}
