import { AppError } from "../errors/app-error.ts";
import { jobOf, type QueueName, queueOf } from "../queue/queue-name.ts";
import type { Partition } from "../redis/partition.ts";
import { byLane, type Lane } from "../redis/retry-write.ts";
import { isNewer, newer } from "../redis/version.ts";
import { wellFormedJson } from "../text/well-formed-json.ts";
import {
  type Decision,
  fieldsOf,
  type NewPayment,
  type Payment,
  type PaymentState,
  type PaymentTerms,
  type Settlement,
  toPayment,
} from "./payment.ts";
import {
  ACKNOWLEDGE,
  type CALL_DROPPED,
  CLAIM,
  type Claimed,
  DISPATCHING,
  DROP,
  type DROPPED,
  ENDED,
  ENQUEUE_AGAIN,
  ENQUEUE_SETTLED,
  FORGET,
  LOOK,
  LOOK_AGAIN,
  PROVEN,
  READ,
  REVIEW,
  SEARCHED,
  TAKE_DUE,
  type TRANSFER_TAKEN,
  VOID,
} from "./scripts.ts";

export type PaymentJournal = ReturnType<typeof createPaymentJournal>;

/**
 * The settlement journal: what is on disk of a payment before money moves, and what has happened to it since. The states are
 * in payment.ts. Every change is one atomic script (scripts.ts); none is retried here. What a later release wrote is left
 * alone: reads and changes throw `record.newer`. `large` is the same partition over the connection for large writes and reads.
 */
export function createPaymentJournal(partition: Partition, large = partition) {
  const { redis, keys } = partition;
  const [read, look, forget] = [READ.on(redis), LOOK.on(redis), FORGET.on(redis)];
  const [takeDue, lookAgain] = [TAKE_DUE.on(redis), LOOK_AGAIN.on(redis)];

  return {
    claim: createClaim(partition, large),
    ...createEnqueueing(partition, large),
    ...createTransitions(partition),

    /** The whole payment, for whoever shows it: the body may be large. This and the other reads throw `queue.unavailable`. */
    async find(id: string): Promise<Payment | undefined> {
      return toPayment(id, await read(keysOf(keys, id)).catch(unreadable));
    },

    /** Like `find`, but without `call`, so that a large body costs nothing. */
    async look(id: string): Promise<Payment | undefined> {
      return toPayment(id, await look(keysOf(keys, id)).catch(unreadable));
    },

    /** The id of the call that this payer bought under this identifier or idempotency key. */
    async findIdentified(payer: string, identifier: string): Promise<string | undefined> {
      const key = keys.paymentIdentifier(payer, identifier);
      const [id, v] = await redis.hmget(key, "id", "v").catch(unreadable);
      if (isNewer("identifier", v)) throw newer();
      return id ?? undefined;
    },

    /** Whether a payment has used up this caller's nonce. */
    async isNonceUsed(hash: string): Promise<boolean> {
      return (await redis.exists(keys.callerNonce(hash)).catch(unreadable)) === 1;
    },

    /** The id of the call whose payment has used up this operator's quote. */
    async findQuoted(digest: string): Promise<string | undefined> {
      return (await redis.get(keys.usedQuote(digest)).catch(unreadable)) ?? undefined;
    },

    /** How many of the payer's payments are open: SETTLING or in REVIEW. */
    async countOpen(payer: string): Promise<number> {
      return redis.scard(keys.openPayments(payer)).catch(unreadable);
    },

    /** Ids of up to `count` due payments. No other caller gets them before the lease has ended. */
    takeDue: (asked: { leaseMs: number; count: number }): Promise<string[]> =>
      takeDue({ due: keys.paymentsDue }, asked),

    /** Takes a payment off all lists if nothing is known of its call any more. */
    async forget(id: string): Promise<void> {
      await forget(keysOf(keys, id), { id, openPrefix: keys.openPayments("") });
    },

    /** Takes a payment off the reconciler's list. */
    async leave(id: string): Promise<void> {
      await redis.zrem(keys.paymentsDue, id);
    },

    /** Sets when the reconciler looks again. Does nothing if the payment is not on its list. Resolves with when it looks (unix ms by Redis' clock). */
    lookAgain: (id: string, afterMs: number): Promise<number> =>
      lookAgain({ due: keys.paymentsDue }, { id, ms: afterMs }),
  };
}

function unreadable(cause: unknown): never {
  const reason = "the journal cannot be read";
  throw new AppError("queue.unavailable", { reason, retryAfterMs: 2000, cause });
}

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
};

/** Writes a whole paid call before money moves, or returns what is known of it. */
function createClaim(partition: Partition, large: Partition) {
  const { keys } = partition;
  const claims = byLane(partition, large, CLAIM);

  /** A key without use here repeats the payment's own key, because Redis Cluster wants every key declared. */
  function claimKeys({ call, callerNonce, quoteUse, ...payment }: NewPayment) {
    const own = keys.payment(call.id);
    return {
      ...keysOf(keys, call.id),
      ...nameKeys(keys, { id: call.id, ...payment }),
      open: keys.openPayments(payment.terms.payer),
      callerNonce: callerNonce === undefined ? own : keys.callerNonce(callerNonce.hash),
      quote: quoteUse === undefined ? own : keys.usedQuote(quoteUse.digest),
      drained: keys.paymentsDrained,
    };
  }

  return async (
    payment: NewPayment,
    { clients, ...claiming }: Claiming,
    lane: Lane = "small",
  ): Promise<Claimed> => {
    const { call, route, callerNonce, quoteUse } = payment;
    return claims[lane](claimKeys(payment), {
      ...{ ...claiming, id: call.id, bodySha256: call.sha256, route, windowMs: REMEMBERED_MS },
      nonceUntil: callerNonce?.keptUntil ?? 0,
      quoteUntil: quoteUse?.keptUntil ?? 0,
      clients: JSON.stringify(clients),
      fields: fieldsOf(payment),
    });
  };
}

/**
 * How long a void payment is kept beyond its authorization's end. Whoever has many payments claimed that never settle leaves as many void ones
 * behind, so they do not stay long. What an operator has decided may be wrong, and is not a stranger's to fill Redis with.
 */
const VOID_REMEMBERED_MS = { byProof: 3_600_000, byOperator: 86_400_000 };

/** The states that a transition leaves. If it finds another one, it changes nothing. */
type From = { from?: readonly PaymentState[] };

type Ending = { reason: string; decided?: Decision; dispatches?: number };

type Settled = { settlement: Settlement; proven: boolean };

/** What brings the call of a payment into its queue. It is the call that the claim has written. */
function createEnqueueing(partition: Partition, large: Partition) {
  const { keys, prefix } = partition;
  const settled = byLane(partition, large, ENQUEUE_SETTLED);
  const again = byLane(partition, large, ENQUEUE_AGAIN);

  function named({ id, terms }: Payment) {
    const queue = paidQueueOf(terms);
    return { prefix, job: jobOf(queue), queue, id };
  }

  return {
    /**
     * The payment is settled: SETTLING (or, for an operator, REVIEW) becomes QUEUED, and the call is added to its queue; or DISCARDED,
     * if its call was dropped. The reconciler looks after `dueInMs`. If the chain has shown the transfer, it pays for this call alone from
     * now on. Resolves with the state found.
     */
    async enqueueSettled(
      payment: Payment,
      { settlement, proven }: Settled,
      { dueInMs, from = ["SETTLING"] }: From & { dueInMs: number },
      lane: Lane = "small",
    ): Promise<Found> {
      const { id, terms } = payment;
      const transfer = transferKey(keys, terms, settlement);
      const own = { open: keys.openPayments(terms.payer), transfer: transfer ?? keys.payment(id) };
      const what = { settlement: wellFormedJson(settlement), proven, hasTransfer: transfer !== undefined };
      const words = { ...named(payment), ...what, dueInMs, from };
      return await settled[lane]({ ...keysOf(keys, id), ...own }, words);
    },

    /** Adds the call of a payment that is QUEUED to its queue again. Resolves with the state found. */
    enqueueAgain: (payment: Payment, lane: Lane = "small"): Promise<PaymentState | undefined> =>
      again[lane](keysOf(keys, payment.id), named(payment)),
  };
}

/**
 * The other transitions after the claim. They resolve with the state before: one of `from` means that the transition was made;
 * undefined, that there is no such payment.
 */
function createTransitions({ redis, keys }: Partition) {
  const [toVoid, review] = [VOID.on(redis), REVIEW.on(redis)];
  const [ended, drop] = [ENDED.on(redis), DROP.on(redis)];
  const dispatching = DISPATCHING.on(redis);
  const proven = PROVEN.on(redis);
  const searched = SEARCHED.on(redis);
  const acknowledge = ACKNOWLEDGE.on(redis);

  /** The keys of what the payment used up. If it used no caller's nonce, the key is one that is never set. */
  function usedKeys({ callerNonce = "none", terms }: Payment) {
    return { callerNonce: keys.callerNonce(callerNonce), quote: keys.usedQuote(terms.quote_digest) };
  }

  return {
    /**
     * SETTLING (or, for an operator, REVIEW) becomes VOID, and the body is dropped. With `dispatches` only if no more settle
     * requests were sent: undefined if they were. `now` is by the process's clock: while it or Redis' says that the chain may still take the
     * authorization, the payment is remembered.
     */
    async markVoid(
      payment: Payment,
      { reason, decided, dispatches }: Ending,
      { now, from = ["SETTLING"] }: From & { now: number },
    ): Promise<PaymentState | undefined> {
      const { id, terms } = payment;
      const rememberedMs = VOID_REMEMBERED_MS[decided === undefined ? "byProof" : "byOperator"];
      const keepMs =
        Math.max(0, Number(terms.valid_before) * 1000 - Math.min(now, payment.readAt)) + rememberedMs;
      const own = { open: keys.openPayments(terms.payer), ...nameKeys(keys, payment), ...usedKeys(payment) };
      const words = { id, keepMs, reason, decided: decided && JSON.stringify(decided), dispatches, from };
      return await toVoid({ ...keysOf(keys, id), ...own }, words);
    },

    /** SETTLING becomes REVIEW, because the evidence is contradictory and an operator has to decide. */
    markForReview: (id: string, reason: string): Promise<PaymentState | undefined> =>
      review(keysOf(keys, id), { id, reason }),

    /** Counts a settle request that is about to be sent again. False if the payment is no longer SETTLING, or was claimed so long ago. */
    markDispatching: (id: string, maxAgeMs: number): Promise<boolean> =>
      dispatching(keysOf(keys, id), { maxAgeMs }),

    /** Records that the chain has shown this settlement at the configured depth: its transfer pays for this call alone. */
    async markProven({ id, terms }: Payment, settlement: Settlement): Promise<Found> {
      const transfer = transferKey(keys, terms, settlement);
      if (transfer === undefined) throw new Error("a proof shows a transfer");
      return await proven({ ...keysOf(keys, id), transfer }, { id, settlement: wellFormedJson(settlement) });
    },

    /** Records that no use of the authorization was found up to this block. */
    markSearched: (id: string, block: bigint): Promise<void> =>
      searched({ payment: keys.payment(id) }, { block: String(block) }),

    /** Records, for an operator, what contradicts a payment whose call may already be with the runner. */
    async markDisputed(id: string, reason: string): Promise<void> {
      await redis.hset(keys.payment(id), "reason", reason);
    },

    /** Records that an operator has seen what contradicts the payment. False if nothing does, or an operator has seen it before. */
    acknowledge: (id: string, decision: Decision): Promise<boolean> =>
      acknowledge(keysOf(keys, id), { decision: JSON.stringify(decision) }),

    /**
     * Drops the body of a payment that is SETTLING or in REVIEW, with a line in the audit (`auditWords`), in one step: no settle is sent any
     * more, and money that comes all the same is due back. Resolves with the state found, or `DROPPED`, also if it was dropped before.
     */
    async drop(
      id: string,
      decision: Decision,
      line: readonly (string | number)[],
    ): Promise<PaymentState | typeof DROPPED | undefined> {
      return await drop(
        { ...keysOf(keys, id), audit: keys.audit },
        { id, decision: JSON.stringify(decision), line },
      );
    },

    /** The call has ended: drops what was needed to finish it, and lets the rest expire. */
    async markEnded(payment: Payment): Promise<void> {
      const { id, terms, settlement } = payment;
      const transfer = (settlement && transferKey(keys, terms, settlement)) ?? keys.payment(id);
      await ended({ ...keysOf(keys, id), ...nameKeys(keys, payment), transfer }, { id });
    },
  };
}

/**
 * The state that a change has found; that it was not made, because the transfer pays for another call already; or that it was made of a
 * payment whose call was dropped.
 */
export type Found = PaymentState | undefined | typeof TRANSFER_TAKEN | typeof CALL_DROPPED;

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
    usage: keys.paymentsUsage,
    usageBy: keys.paymentsUsageBy,
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
