import { parseJson } from "../platform/text/parse-json.ts";
import { defineScript } from "../redis/define-script.ts";
import { type Scored, toScored, walkScored } from "../redis/pages.ts";
import { type Partition, shareOf } from "../redis/partition.ts";
import { integer, list, optional, text } from "../redis/reply.ts";
import forgetGoneLua from "./forget-gone.lua";
import {
  type Decision,
  PAYMENT_STATES,
  type Payment,
  type PaymentState,
  PaymentTerms,
  type Refund,
  type RefundTransfer,
  type Settlement,
  toEffect,
} from "./payment.ts";
import readManyLua from "./read-many.lua";

/** A payment without its body and without the other fields that are needed only to finish it. */
export type PaymentSummary = Pick<
  Payment,
  | "id"
  | "state"
  | "terms"
  | "claimedAt"
  | "changedAt"
  | "sinceBlock"
  | "dispatches"
  | "settlement"
  | "proven"
  | "reason"
  | "acknowledged"
  | "dropped"
  | "effect"
  | "refund"
  | "refunded"
  | "lateAt"
>;

/**
 * Position in a list of payments: the id of a payment, and the time by which the list is sorted, such as that of the claim
 * (unix ms). A page continues after such a position.
 */
export type PaymentPlace = { at: number; id: string };

type ListedPayment = { payment: PaymentSummary; place: PaymentPlace };

/**
 * Filter that selects payments which match every given field. `since` and `until` are times of the claim in unix ms, both
 * inclusive.
 */
export type PaymentFilter = {
  /** The payment is in one of these states. */
  states?: readonly PaymentState[] | undefined;
  /** Lower case. */
  payer?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
  /** The payment is not in a final state. */
  open?: boolean | undefined;
  /** The payment counts as paid, but evidence contradicts it, and no operator has acknowledged that. */
  disputed?: boolean | undefined;
  /** The payment counts as paid, but evidence contradicts it, and an operator has acknowledged that. */
  acknowledged?: boolean | undefined;
};

const READ_AT_ONCE = 100;
/** Maximum number of payments that are read for one page, in all partitions together, even if few of them match. */
const LOOKED_AT_MAX = 10_000;

export function lookedAtMax({ count }: Partition): number {
  return shareOf(LOOKED_AT_MAX, count);
}

const PRUNED_AT_ONCE = 500;

const READ_MANY = defineScript({
  source: readManyLua,
  keys: "payments, disputed, discarded, ...calls(record, payment)",
  args: "...ids",
  proof: "expendable",
  reply: list(list(optional(text))),
});

const FORGET_GONE = defineScript({
  source: forgetGoneLua,
  keys: "payments, disputed, discarded, ...records",
  args: "...ids",
  proof: "expendable",
  reply: integer,
});

export type PaymentList = ReturnType<typeof createPaymentList>;

/** Creates functions that read the payments of a partition in the order of their claims, a few at a time to save memory. */
export function createPaymentList(partition: Partition) {
  const { redis, keys } = partition;
  const [readMany, forgetGone] = [READ_MANY.on(redis), FORGET_GONE.on(redis)];
  const lists = {
    payments: keys.payments,
    disputed: keys.paymentsDisputed,
    discarded: keys.paymentsDiscarded,
  };

  /** Reads the payments with these ids, in the order of `ids`. Undefined for an id that is unknown or has expired. */
  async function read(ids: readonly string[]): Promise<(PaymentSummary | undefined)[]> {
    if (ids.length === 0) return [];
    const calls = ids.map((id) => ({ record: keys.record(id), payment: keys.payment(id) }));
    const found = await readMany({ ...lists, calls }, { ids });
    return ids.map((id, i) => toSummary(id, found[i] ?? []));
  }

  /**
   * Reads the ids of the calls that these transfers pay for, in the order of the transfers. Undefined for a transfer that
   * pays for no call.
   */
  async function paidBy(
    network: string,
    transfers: readonly { transaction: string; position: number }[],
  ): Promise<(string | undefined)[]> {
    if (transfers.length === 0) return [];
    const keyOf = ({ transaction, position }: (typeof transfers)[number]) =>
      keys.paidTransfer(network, transaction, position);
    const taken = await redis.mget(transfers.map(keyOf));
    return taken.map((id) => id ?? undefined);
  }

  /**
   * Removes expired payments from the list, which Redis does not do by itself. Begins at `rank`, which counts from the oldest
   * payment. Stops after a page without an expired payment, and returns the rank at which the next call must begin. Once the
   * end of the list is reached, returns 0.
   */
  async function prune(rank: number): Promise<number> {
    for (let from = rank; ; ) {
      const ids = await redis.zrange(keys.payments, String(from), String(from + PRUNED_AT_ONCE - 1));
      const gone = await forgetGone({ ...lists, records: ids.map(keys.record) }, { ids });
      if (ids.length < PRUNED_AT_ONCE) return 0;
      from += ids.length - gone;
      if (gone === 0) return from;
    }
  }

  return { read, paidBy, prune, ...createReading(partition, read) };
}

type Read = (ids: readonly string[]) => Promise<(PaymentSummary | undefined)[]>;

function createReading(partition: Partition, read: Read) {
  async function readMatching(
    places: readonly PaymentPlace[],
    filter: PaymentFilter,
  ): Promise<ListedPayment[]> {
    const payments = await read(places.map(({ id }) => id));
    return places.flatMap((place, i) => {
      const payment = payments[i];
      return payment !== undefined && matches(payment, filter) ? [{ payment, place }] : [];
    });
  }

  return {
    /** Yields the payments that match, newest first. */
    async *matching(filter: PaymentFilter, signal?: AbortSignal): AsyncGenerator<PaymentSummary> {
      for await (const places of placesOf(partition, filter)) {
        if (signal?.aborted) return;
        yield* (await readMatching(places, filter)).map(({ payment }) => payment);
      }
    },

    /**
     * Yields the matching payments that became disputed by `until` (unix ms, Redis' clock) and that no operator has
     * acknowledged. The payments that have been disputed longest come first.
     */
    async *disputed(filter: PaymentFilter, until: number): AsyncGenerator<PaymentSummary> {
      const walk = { max: until, size: READ_AT_ONCE };
      const { since = Number.NEGATIVE_INFINITY, until: claimedUntil = Number.POSITIVE_INFINITY } = filter;
      for await (const page of walkScored(partition.redis, partition.keys.paymentsDisputed, walk)) {
        const found = await readMatching(page.map(toPlace), { ...filter, disputed: true });
        for (const { payment } of found)
          if (payment.claimedAt >= since && payment.claimedAt <= claimedUntil) yield payment;
      }
    },

    /**
     * Reads up to `limit` matching payments after the place `after`, newest first. The next page continues from `next`. If a
     * page has `next`, more payments may follow, even if this page is empty.
     */
    async page(
      filter: PaymentFilter,
      { after, limit }: { after?: PaymentPlace | undefined; limit: number },
    ): Promise<{ items: ListedPayment[]; next: PaymentPlace | undefined }> {
      const found: ListedPayment[] = [];
      let lookedAt = 0;
      let next: PaymentPlace | undefined;
      for await (const places of placesOf(partition, filter, after)) {
        found.push(...(await readMatching(places, filter)));
        lookedAt += places.length;
        if (found.length > limit) next = found[limit - 1]?.place;
        else if (lookedAt >= lookedAtMax(partition)) next = places.at(-1);
        if (next !== undefined) break;
      }
      return { items: found.slice(0, limit), next };
    },
  };
}

/**
 * Yields the places of payments that may match, newest first. If the filter selects only one state, and there is a list of
 * the payments in that state, only that list is read.
 */
function placesOf(partition: Partition, filter: PaymentFilter, after?: PaymentPlace) {
  const [state, ...others] = filter.states ?? [];
  const list = state === undefined || others.length > 0 ? undefined : LISTS[state];
  return list === undefined
    ? newestFirst(partition, filter, after)
    : newestIn(partition, partition.keys[list], filter, after);
}

const LISTS: Partial<Record<PaymentState, "paymentsUnresolved" | "paymentsInReview" | "refundsPending">> = {
  SETTLING: "paymentsUnresolved",
  REVIEW: "paymentsInReview",
  REFUND_PENDING: "refundsPending",
};

/**
 * Yields the places of the payments on a short list, newest claim first. The list has another order, so all of it is read and
 * sorted.
 */
async function* newestIn(
  { redis, keys }: Partition,
  list: string,
  { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY }: PaymentFilter,
  after: PaymentPlace | undefined,
): AsyncGenerator<PaymentPlace[]> {
  const ids = await redis.zrange(list, "0", "-1");
  if (ids.length === 0) return;
  const scores = await redis.zmscore(keys.payments, ...ids);
  const isBeyond = ({ at, id }: PaymentPlace): boolean =>
    after === undefined || at < after.at || (at === after.at && id < after.id);
  const places = ids
    .map((id, i) => ({ at: Number(scores[i] ?? Number.NaN), id }))
    .filter((place) => place.at >= since && place.at <= until && isBeyond(place))
    .sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
  for (let i = 0; i < places.length; i += READ_AT_ONCE) yield places.slice(i, i + READ_AT_ONCE);
}

async function* newestFirst(
  { redis, keys }: Partition,
  { since: min, until: max }: PaymentFilter,
  after: PaymentPlace | undefined,
): AsyncGenerator<PaymentPlace[]> {
  const walk = { min, max, highestFirst: true, size: READ_AT_ONCE, after: toScoredPlace(after) };
  for await (const page of walkScored(redis, keys.payments, walk)) yield page.map(toPlace);
}

const toScoredPlace = (place: PaymentPlace | undefined) => place && { member: place.id, score: place.at };

const toPlace = ({ member, score }: Scored): PaymentPlace => ({ at: score, id: member });

function toSummary(id: string, fields: readonly (string | undefined)[]): PaymentSummary | undefined {
  const [state, changedAt, unsure, late, ...ofPayment] = fields;
  const [
    terms,
    claimedAt,
    sinceBlock,
    dispatches,
    settlement,
    proven,
    reason,
    refund,
    refunded,
    acknowledged,
    dropped,
  ] = ofPayment;
  if (state === undefined || terms === undefined) return undefined;
  const known = PaymentTerms.safeParse(parseJson(terms));
  const isReadable = known.success && PAYMENT_STATES.some((each) => each === state);
  return {
    id,
    state: state as PaymentState,
    terms: known.success ? known.data : UNKNOWN_TERMS,
    claimedAt: Number(claimedAt ?? 0),
    changedAt: Number(changedAt ?? 0),
    sinceBlock: /^\d+$/.test(sinceBlock ?? "") ? BigInt(sinceBlock ?? 0) : 0n,
    dispatches: Number(dispatches ?? 0),
    settlement: parseJson(settlement) as Settlement | undefined,
    proven: proven === "1",
    reason: reason ?? (isReadable ? undefined : "the stored payment cannot be read"),
    acknowledged: parseJson(acknowledged) as Decision | undefined,
    dropped: parseJson(dropped) as Decision | undefined,
    effect: toEffect(unsure),
    refund: parseJson(refund) as Refund | undefined,
    refunded: parseJson(refunded) as RefundTransfer | undefined,
    lateAt: late === undefined ? undefined : Number(late),
  };
}

/** Placeholder for terms that cannot be read. */
const UNKNOWN_TERMS: PaymentTerms = {
  service_id: 0,
  job_index: 0,
  network: "?",
  asset: "?",
  symbol: "?",
  pay_to: "?",
  payer: "?",
  nonce: "?",
  amount: "0",
  valid_after: "0",
  valid_before: "0",
  quote_digest: "?",
  x402_version: 2,
  body_bytes: 0,
  transfer_method: "eip3009",
};

/** Returns whether the terms of the payment can be read. Only then are its token and its amount known. */
export function areTermsKnown({ terms }: Pick<PaymentSummary, "terms">): boolean {
  return terms.network !== UNKNOWN_TERMS.network;
}

function matches(payment: PaymentSummary, filter: PaymentFilter): boolean {
  const { states, payer, open, disputed, acknowledged } = filter;
  if (states !== undefined && !states.includes(payment.state)) return false;
  if (payer !== undefined && payment.terms.payer !== payer) return false;
  if (open === true && isFinal(payment.state)) return false;
  if (disputed === true && !isDisputed(payment)) return false;
  return acknowledged !== true || (isContradicted(payment) && payment.acknowledged !== undefined);
}

/**
 * Returns whether no process will change the payment by itself. If its call was discarded, an operator may still export its
 * refund.
 */
function isFinal(state: PaymentState): boolean {
  return state === "INJECTED" || state === "DISCARDED" || state === "VOID" || state === "REFUNDED";
}

/** Returns whether the journal says that the payment was made. The chain may still contradict it. */
export function countsAsPaid(state: PaymentState): boolean {
  return state !== "SETTLING" && state !== "REVIEW" && state !== "VOID";
}

/**
 * Returns whether a payment counts as paid, but evidence contradicts it. A payment that an operator has settled is never
 * contradicted.
 */
export function isContradicted({
  state,
  reason,
  settlement,
}: Pick<Payment, "state" | "reason" | "settlement">): boolean {
  return countsAsPaid(state) && reason !== undefined && settlement?.by !== "operator";
}

/** Returns whether a payment counts as paid, but evidence contradicts it, and no operator has acknowledged that. */
export function isDisputed(
  payment: Pick<Payment, "state" | "reason" | "settlement" | "acknowledged">,
): boolean {
  return isContradicted(payment) && payment.acknowledged === undefined;
}

/** Creates functions that read the reconciler's list: the payments that it must check, and the times of these checks. */
export function createDueList({ redis, keys }: Partition) {
  return {
    /** Reads the time when the reconciler checks this payment, in unix ms. Undefined if the payment is not on the list. */
    async at(id: string): Promise<number | undefined> {
      const score = await redis.zscore(keys.paymentsDue, id);
      return score === null ? undefined : Number(score);
    },

    /**
     * Yields the places of the listed payments that follow `after`, the soonest check first. A payment whose time changes
     * between two pages may come twice.
     */
    async *soonestFirst(after?: PaymentPlace): AsyncGenerator<PaymentPlace[]> {
      const walk = { size: READ_AT_ONCE, after: toScoredPlace(after) };
      for await (const page of walkScored(redis, keys.paymentsDue, walk)) yield page.map(toPlace);
    },
  };
}

/** Number of payments with work left, and the time since which the oldest of them has waited for it (unix ms). */
type OpenCount = { payments: number; oldestAt: number | undefined };

/**
 * Payments with work left, and the time of the oldest.
 *  - `settling`: The call is not queued yet. The time is that of the claim.
 *  - `review`: An operator must decide. The time is that of the claim.
 *  - `disputed`: No operator has acknowledged the dispute. The time is that of the dispute.
 *  - `refund_pending`: The refund is exported, but was not yet seen on the chain. The time is that of the export.
 */
export type Unresolved = Record<"settling" | "review" | "disputed" | "refund_pending", OpenCount>;

/** Adds up the counts of all partitions. */
export function sumOfUnresolved(all: readonly Unresolved[]): Unresolved {
  const sum = (name: keyof Unresolved): OpenCount => {
    const oldest = all.flatMap((each) => each[name].oldestAt ?? []);
    return {
      payments: all.reduce((payments, each) => payments + each[name].payments, 0),
      oldestAt: oldest.length === 0 ? undefined : Math.min(...oldest),
    };
  };
  return {
    settling: sum("settling"),
    review: sum("review"),
    disputed: sum("disputed"),
    refund_pending: sum("refund_pending"),
  };
}

export function createUnresolved({ redis, keys }: Partition): () => Promise<Unresolved> {
  async function waiting(key: string): Promise<OpenCount> {
    const [payments, oldest] = await Promise.all([
      redis.zcard(key),
      redis.zrangebyscore(key, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1),
    ]);
    return { payments, oldestAt: toScored(oldest)[0]?.score };
  }
  return async () => {
    const [settling, review, disputed, refund_pending] = await Promise.all([
      waiting(keys.paymentsUnresolved),
      waiting(keys.paymentsInReview),
      waiting(keys.paymentsDisputed),
      waiting(keys.refundsPending),
    ]);
    return { settling, review, disputed, refund_pending };
  };
}
