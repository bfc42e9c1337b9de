import { AppError } from "../errors/app-error.ts";
import { jobOf, type QueueName, queueOf } from "../queue/queue-name.ts";
import type { Partition } from "../redis/partition.ts";
import { type Lane, scriptByLane } from "../redis/retry-write.ts";
import { script } from "../redis/script.ts";
import { isNewer, newer } from "../redis/version.ts";
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
  const read = script(redis, READ);
  const look = script(redis, LOOK);
  const takeDue = script(redis, TAKE_DUE);
  const forget = script(redis, FORGET);
  const lookAgain = script(redis, LOOK_AGAIN);

  return {
    claim: createClaim(partition, large),
    ...createEnqueueing(partition, large),
    ...createTransitions(partition),

    /** The whole payment, for whoever shows it: the body may be large. This and the other reads throw `queue.unavailable`. */
    async find(id: string): Promise<Payment | undefined> {
      const found = await read([keys.record(id), keys.payment(id)], []).catch(unreadable);
      return toPayment(id, found as [string[], string[], number]);
    },

    /** Like `find`, but without `call`, so that a large body costs nothing. */
    async look(id: string): Promise<Payment | undefined> {
      const found = await look([keys.record(id), keys.payment(id)], []).catch(unreadable);
      return toPayment(id, found as [string[], string[], number]);
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
    async takeDue({ leaseMs, count }: { leaseMs: number; count: number }): Promise<string[]> {
      return (await takeDue([keys.paymentsDue], [leaseMs, count])) as string[];
    },

    /** Takes a payment off all lists if nothing is known of its call any more. */
    async forget(id: string): Promise<void> {
      const lists = [keys.paymentsDue, keys.payments, keys.paymentsUnresolved, keys.paymentsInReview];
      const touched = [keys.record(id), keys.payment(id), ...lists, ...usageKeys(keys)];
      await forget(touched, [id, keys.openPayments("")]);
    },

    /** Takes a payment off the reconciler's list. */
    async leave(id: string): Promise<void> {
      await redis.zrem(keys.paymentsDue, id);
    },

    /** Sets when the reconciler looks again. Does nothing if the payment is not on its list. Resolves with when it looks (unix ms by Redis' clock). */
    async lookAgain(id: string, afterMs: number): Promise<number> {
      return (await lookAgain([keys.paymentsDue], [id, afterMs])) as number;
    },
  };
}

function unreadable(cause: unknown): never {
  const reason = "the journal cannot be read";
  throw new AppError("queue.unavailable", { reason, retryAfterMs: 2000, cause });
}

/** How long a payment is kept after its call has ended: longer than anybody replays it on purpose. */
const REMEMBERED_MS = 30 * 86_400_000;

export type Claimed =
  /** `ageMs` is how long ago the payment was claimed; 0 unless an earlier try of the same request did it. */
  | { kind: "new"; ageMs: number }
  /** The same request was paid for before, by this payment or under the same identifier. */
  | { kind: "known"; id: string }
  | { kind: "conflict" | "identifier_conflict" | "too_many_open" | "drained" }
  | { kind: "nonce_used" | "nonce_expired" | "quote_used" | "quote_expired" }
  /** With this payment more would be unsettled than its client may have, or than there may be of all clients; or it never fits. */
  | { kind: "client_full" | "full" | "too_large" };

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
  const claims = scriptByLane(partition, large, CLAIM);

  /** A key without use here repeats the payment's own key, because Redis Cluster wants every key declared. */
  function claimKeys({ call, callerNonce, quoteUse, ...payment }: NewPayment): string[] {
    const own = keys.payment(call.id);
    const [identifier, idempotencyKey] = nameKeys(keys, { id: call.id, ...payment });
    return [
      keys.record(call.id),
      own,
      keys.paymentsDue,
      keys.payments,
      keys.openPayments(payment.terms.payer),
      identifier,
      callerNonce === undefined ? own : keys.callerNonce(callerNonce.hash),
      keys.paymentsUnresolved,
      quoteUse === undefined ? own : keys.usedQuote(quoteUse.digest),
      idempotencyKey,
      ...usageKeys(keys),
      keys.paymentsDrained,
    ];
  }

  return async (
    payment: NewPayment,
    { by, openMax, clients, unsettledBytesMax, dueInMs }: Claiming,
    lane: Lane = "small",
  ): Promise<Claimed> => {
    const { call, route, callerNonce, quoteUse } = payment;
    const head = [call.id, call.sha256, route, dueInMs, REMEMBERED_MS, by, openMax];
    const marks = [callerNonce?.keptUntil ?? 0, quoteUse?.keptUntil ?? 0];
    const usage = [JSON.stringify(clients), unsettledBytesMax];
    const args = [...head, ...marks, ...usage, ...fieldsOf(payment)];
    const reply = await claims[lane](claimKeys(payment), args);
    return toClaimResult(reply as [string, (string | number)?]);
  };
}

function toClaimResult([kind, detail]: [string, (string | number)?]): Claimed {
  switch (kind) {
    case "NEW":
      return { kind: "new", ageMs: Number(detail) };
    case "KNOWN":
      return { kind: "known", id: String(detail) };
    case "CONFLICT":
      return { kind: "conflict" };
    case "IDENTIFIER_CONFLICT":
      return { kind: "identifier_conflict" };
    case "TOO_MANY_OPEN":
      return { kind: "too_many_open" };
    case "NONCE_USED":
      return { kind: "nonce_used" };
    case "NONCE_EXPIRED":
      return { kind: "nonce_expired" };
    case "QUOTE_USED":
      return { kind: "quote_used" };
    case "QUOTE_EXPIRED":
      return { kind: "quote_expired" };
    case "DRAINED":
      return { kind: "drained" };
    case "CLIENT_FULL":
      return { kind: "client_full" };
    case "FULL":
      return { kind: "full" };
    case "TOO_LARGE":
      return { kind: "too_large" };
    default:
      throw new Error(`the claim answered ${kind}`);
  }
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
  const settled = scriptByLane(partition, large, ENQUEUE_SETTLED());
  const again = scriptByLane(partition, large, ENQUEUE_AGAIN());

  function named({ id, terms }: Payment): string[] {
    const queue = paidQueueOf(terms);
    return [prefix, jobOf(queue), queue, id];
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
      const sets = [
        keys.paymentsDue,
        keys.openPayments(terms.payer),
        keys.paymentsUnresolved,
        keys.paymentsInReview,
        transfer ?? keys.payment(id),
        ...usageKeys(keys),
      ];
      const flags = [proven ? 1 : 0, transfer === undefined ? 0 : 1];
      const args = [...named(payment), dueInMs, JSON.stringify(settlement), ...flags, ...from];
      return toFound(await settled[lane]([keys.record(id), keys.payment(id), ...sets], args));
    },

    /** Adds the call of a payment that is QUEUED to its queue again. Resolves with the state found. */
    async enqueueAgain(payment: Payment, lane: Lane = "small"): Promise<PaymentState | undefined> {
      const { id } = payment;
      return toState(await again[lane]([keys.record(id), keys.payment(id)], named(payment)));
    },
  };
}

/**
 * The other transitions after the claim. They resolve with the state before: one of `from` means that the transition was made;
 * undefined, that there is no such payment.
 */
function createTransitions({ redis, keys }: Partition) {
  const toVoid = script(redis, VOID);
  const review = script(redis, REVIEW);
  const dispatching = script(redis, DISPATCHING);
  const proven = script(redis, PROVEN);
  const searched = script(redis, SEARCHED);
  const acknowledge = script(redis, ACKNOWLEDGE);
  const drop = script(redis, DROP);
  const ended = script(redis, ENDED);
  const unresolved = [keys.paymentsUnresolved, keys.paymentsInReview];

  function own(id: string): [string, string] {
    return [keys.record(id), keys.payment(id)];
  }

  /** The keys of what the payment used up. If it used no caller's nonce, the key is one that is never set. */
  function usedKeys({ callerNonce = "none", terms }: Payment): [string, string] {
    return [keys.callerNonce(callerNonce), keys.usedQuote(terms.quote_digest)];
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
      const ttlMs =
        Math.max(0, Number(terms.valid_before) * 1000 - Math.min(now, payment.readAt)) + rememberedMs;
      const common = [...own(id), keys.paymentsDue, keys.openPayments(terms.payer)];
      const [identifier, idempotencyKey] = nameKeys(keys, payment);
      const used = [...usedKeys(payment), idempotencyKey, ...usageKeys(keys)];
      const touched = [...common, identifier, ...unresolved, ...used];
      const decision = decided === undefined ? "" : JSON.stringify(decided);
      return toState(await toVoid(touched, [id, ttlMs, reason, decision, dispatches ?? "", ...from]));
    },

    /** SETTLING becomes REVIEW, because the evidence is contradictory and an operator has to decide. */
    async markForReview(id: string, reason: string): Promise<PaymentState | undefined> {
      return toState(await review([...own(id), keys.paymentsDue, ...unresolved], [id, reason]));
    },

    /** Counts a settle request that is about to be sent again. False if the payment is no longer SETTLING, or was claimed so long ago. */
    async markDispatching(id: string, maxAgeMs: number): Promise<boolean> {
      return (await dispatching(own(id), [maxAgeMs])) === 1;
    },

    /** Records that the chain has shown this settlement at the configured depth: its transfer pays for this call alone. */
    async markProven({ id, terms }: Payment, settlement: Settlement): Promise<Found> {
      const transfer = transferKey(keys, terms, settlement);
      if (transfer === undefined) throw new Error("a proof shows a transfer");
      return toFound(await proven([...own(id), transfer], [id, JSON.stringify(settlement)]));
    },

    /** Records that no use of the authorization was found up to this block. */
    async markSearched(id: string, block: bigint): Promise<void> {
      await searched([keys.payment(id)], [String(block)]);
    },

    /** Records, for an operator, what contradicts a payment whose call may already be with the runner. */
    async markDisputed(id: string, reason: string): Promise<void> {
      await redis.hset(keys.payment(id), "reason", reason);
    },

    /** Records that an operator has seen what contradicts the payment. False if nothing does, or an operator has seen it before. */
    async acknowledge(id: string, decision: Decision): Promise<boolean> {
      return (await acknowledge(own(id), [JSON.stringify(decision)])) === 1;
    },

    /**
     * Drops the body of a payment that is SETTLING or in REVIEW, with a line in the audit (`auditWords`), in one step: no settle is sent any
     * more, and money that comes all the same is due back. Resolves with the state found, or `DROPPED`, also if it was dropped before.
     */
    async drop(
      id: string,
      decision: Decision,
      line: readonly (string | number)[],
    ): Promise<PaymentState | typeof DROPPED | undefined> {
      const touched = [...own(id), ...usageKeys(keys), keys.audit];
      const found = await drop(touched, [id, JSON.stringify(decision), ...line]);
      return (found as PaymentState | typeof DROPPED | null) ?? undefined;
    },

    /** The call has ended: drops what was needed to finish it, and lets the rest expire. */
    async markEnded(payment: Payment): Promise<void> {
      const { id, terms, settlement } = payment;
      const transfer = settlement && transferKey(keys, terms, settlement);
      const [identifier, idempotencyKey] = nameKeys(keys, payment);
      const common = [...own(id), keys.paymentsDue, identifier, keys.paymentsUnresolved];
      await ended([...common, transfer ?? keys.payment(id), idempotencyKey], [id]);
    },
  };
}

/**
 * The state that a change has found; that it was not made, because the transfer pays for another call already; or that it was made of a
 * payment whose call was dropped.
 */
export type Found = PaymentState | undefined | typeof TRANSFER_TAKEN | typeof CALL_DROPPED;

function toFound(reply: unknown): Found {
  return (reply as Found | null) ?? undefined;
}

/** The keys of what unsettled payments use. */
function usageKeys(keys: Partition["keys"]): [usage: string, byClient: string] {
  return [keys.paymentsUsage, keys.paymentsUsageBy];
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
  keys: Partition["keys"],
  { id, terms, identifier, idempotencyKey }: Pick<Payment, "id" | "terms" | "identifier" | "idempotencyKey">,
): [identifier: string, idempotencyKey: string] {
  const keyOf = (name: string | undefined) =>
    name === undefined ? keys.payment(id) : keys.paymentIdentifier(terms.payer, name);
  return [keyOf(identifier), keyOf(idempotencyKey)];
}

/** The key of the transfer that pays, by its place in the chain. Undefined if the chain has not shown it. */
export function transferKey(
  keys: Partition["keys"],
  { network }: PaymentTerms,
  { transaction, position }: Settlement,
): string | undefined {
  return position === undefined ? undefined : keys.paidTransfer(network, transaction.toLowerCase(), position);
}

function toState(reply: unknown): PaymentState | undefined {
  return (reply as PaymentState | null) ?? undefined;
}
