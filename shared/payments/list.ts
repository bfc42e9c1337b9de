import { toScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import { isNewer } from "../redis/version.ts";
import {
  type Decision,
  type Payment,
  type PaymentState,
  PaymentTerms,
  type Refund,
  type RefundTransfer,
  type Settlement,
  toEffect,
} from "./payment.ts";

/** A payment without its body and the other fields that are needed only to finish it. */
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
  | "effect"
  | "refund"
  | "refunded"
  | "lateAt"
> & {
  /** A later release wrote it. What cannot be read of it is unknown here. */
  isNewer: boolean;
};

/** Selects payments that meet every field present. The times are when a payment was claimed, in unix ms, both inclusive. */
export type PaymentFilter = {
  state?: PaymentState | undefined;
  /** Lower case. */
  payer?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
  /** Not in a final state. */
  open?: boolean | undefined;
  /** Evidence contradicts it, although it counts as paid, and no operator has seen it. */
  disputed?: boolean | undefined;
};

const READ_AT_ONCE = 100;
const PRUNED_AT_ONCE = 500;
const DUE_AT_ONCE = 500;

/** KEYS payments, then record and payment of each id. ARGV ids. Answers their fields; removes ids without a record. */
const READ_MANY = `
local found = {}
for i, id in ipairs(ARGV) do
  local record = redis.call('HMGET', KEYS[2 * i], 'st', 'at', 'v', 'unsure', 'late')
  if record[1] then
    local payment = redis.call('HMGET', KEYS[2 * i + 1], 'terms', 'claimed_at', 'since_block', 'dispatches', 'settlement', 'proven', 'reason', 'v', 'refund', 'refunded', 'acknowledged')
    found[i] = {record[1], record[2], record[3], record[4], record[5], unpack(payment, 1, 11)}
  else
    redis.call('ZREM', KEYS[1], id)
    found[i] = {}
  end
end
return found`;

/** KEYS payments, then the record of each id. ARGV ids. Removes ids without a record. Answers how many. */
const FORGET_GONE = `
local gone = 0
for i, id in ipairs(ARGV) do
  if redis.call('EXISTS', KEYS[i + 1]) == 0 then gone = gone + redis.call('ZREM', KEYS[1], id) end
end
return gone`;

export type PaymentList = ReturnType<typeof createPaymentList>;

/** Reads payments by the time they were claimed. Only a few are in memory at a time. */
export function createPaymentList(partition: Partition) {
  const { redis, keys } = partition;
  const readMany = script(redis, READ_MANY);
  const forgetGone = script(redis, FORGET_GONE);

  /** In the order of `ids`. Undefined for an id that is unknown or has expired. */
  async function read(ids: readonly string[]): Promise<(PaymentSummary | undefined)[]> {
    if (ids.length === 0) return [];
    const touched = ids.flatMap((id) => [keys.record(id), keys.payment(id)]);
    const found = (await readMany([keys.payments, ...touched], ids)) as (string | null)[][];
    return ids.map((id, i) => toSummary(id, found[i] ?? []));
  }

  /** The ids of the calls that these transfers pay for, in their order. Undefined for one that pays for none. */
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

  /** The payments that match, newest first. */
  async function* matching(filter: PaymentFilter, signal?: AbortSignal): AsyncGenerator<PaymentSummary> {
    for await (const ids of newestFirst(partition, filter)) {
      if (signal?.aborted) return;
      const payments = await read(ids);
      yield* payments.filter((payment) => payment !== undefined).filter((each) => matches(each, filter));
    }
  }

  /**
   * Removes expired payments from the list, oldest first, beginning at `rank`. Stops after a page in which none had expired,
   * and returns the rank to begin at next time; that is 0 after the newest payment.
   */
  async function prune(rank: number): Promise<number> {
    for (let from = rank; ; ) {
      const ids = await redis.zrange(keys.payments, String(from), String(from + PRUNED_AT_ONCE - 1));
      const gone = Number(await forgetGone([keys.payments, ...ids.map(keys.record)], ids));
      if (ids.length < PRUNED_AT_ONCE) return 0;
      from += ids.length - gone;
      if (gone === 0) return from;
    }
  }

  return { read, paidBy, matching, prune };
}

/**
 * Ids in pages, newest first. Each page begins at the time of the last id seen, not at a position, so that ids which come or
 * go in between do not shift the others.
 */
async function* newestFirst(
  { redis, keys }: Partition,
  { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY }: PaymentFilter,
): AsyncGenerator<string[]> {
  let last: { at: number; ids: ReadonlySet<string> } = { at: until, ids: new Set() };
  for (;;) {
    const [max, min] = [toBound(last.at), toBound(since)];
    const count = READ_AT_ONCE + last.ids.size;
    const reply = await redis.zrevrangebyscore(keys.payments, max, min, "WITHSCORES", "LIMIT", 0, count);
    const page = toScored(reply);
    const fresh = page.filter(({ member }) => !last.ids.has(member));
    if (fresh.length === 0) return;
    yield fresh.map(({ member }) => member);
    const at = page.at(-1)?.score ?? 0;
    const sameTime = page.filter(({ score }) => score === at).map(({ member }) => member);
    last = { at, ids: new Set(at === last.at ? [...last.ids, ...sameTime] : sameTime) };
  }
}

function toBound(at: number): number | string {
  return Number.isFinite(at) ? at : `${at < 0 ? "-" : "+"}inf`;
}

function toSummary(id: string, fields: readonly (string | null)[]): PaymentSummary | undefined {
  const [state, changedAt, recordV, unsure, late, ...ofPayment] = fields;
  const [
    terms,
    claimedAt,
    sinceBlock,
    dispatches,
    settlement,
    proven,
    reason,
    v,
    refund,
    refunded,
    acknowledged,
  ] = ofPayment;
  const isLater = isNewer("record", recordV) || isNewer("payment", v);
  if (state == null || (terms == null && !isLater)) return undefined;
  const known = PaymentTerms.safeParse(parseIfPossible(terms));
  return {
    id,
    state: state as PaymentState,
    terms: known.success ? known.data : { ...UNKNOWN_TERMS, ...(isLater && parseIfPossible(terms)) },
    claimedAt: Number(claimedAt),
    changedAt: Number(changedAt),
    sinceBlock: isLater ? 0n : BigInt(sinceBlock ?? 0),
    dispatches: Number(dispatches),
    settlement: parseIfPossible(settlement) as Settlement | undefined,
    proven: proven === "1",
    reason: reason ?? (known.success || isLater ? undefined : "what is stored of it cannot be read"),
    acknowledged: parseIfPossible(acknowledged) as Decision | undefined,
    effect: toEffect(unsure),
    refund: parseIfPossible(refund) as Refund | undefined,
    refunded: parseIfPossible(refunded) as RefundTransfer | undefined,
    lateAt: late == null ? undefined : Number(late),
    isNewer: isLater,
  };
}

/** In place of what cannot be read of a payment. */
const UNKNOWN_TERMS: PaymentTerms = {
  ...{
    service_id: 0,
    job_index: 0,
    network: "?",
    asset: "?",
    symbol: "?",
    pay_to: "?",
    payer: "?",
    nonce: "?",
  },
  ...{ amount: "0", valid_after: "0", valid_before: "0", quote_digest: "?", x402_version: 2, body_bytes: 0 },
  transfer_method: "eip3009",
};

function parseIfPossible(text: string | null | undefined) {
  try {
    return text == null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

function matches(payment: PaymentSummary, { state, payer, open, disputed }: PaymentFilter): boolean {
  if (state !== undefined && payment.state !== state) return false;
  if (payer !== undefined && payment.terms.payer !== payer) return false;
  if (open === true && isFinal(payment.state)) return false;
  return disputed !== true || isDisputed(payment);
}

/** Whether nothing is left to do. An operator may still have a discarded call's payment paid back. */
function isFinal(state: PaymentState): boolean {
  return state === "INJECTED" || state === "DISCARDED" || state === "VOID" || state === "REFUNDED";
}

/** Whether the journal says that the payment was made. */
export function countsAsPaid(state: PaymentState): boolean {
  return state !== "SETTLING" && state !== "REVIEW" && state !== "VOID";
}

/**
 * Whether evidence contradicts a payment that counts as paid, and no operator has seen it. A payment settled by an operator is never
 * disputed.
 */
export function isDisputed({
  state,
  reason,
  settlement,
  acknowledged,
}: Pick<Payment, "state" | "reason" | "settlement" | "acknowledged">): boolean {
  return (
    countsAsPaid(state) && reason !== undefined && settlement?.by !== "operator" && acknowledged === undefined
  );
}

/** Reads the reconciler's list: which payments it looks at, and when. */
export function createDue({ redis, keys }: Partition) {
  return {
    /** When the reconciler looks at this payment, in unix ms; undefined if it is not on the list. */
    async at(id: string): Promise<number | undefined> {
      const score = await redis.zscore(keys.paymentsDue, id);
      return score === null ? undefined : Number(score);
    },

    /** All ids on the list, in pages. An id whose time changes in between may come twice. */
    async *ids(): AsyncGenerator<string[]> {
      let cursor = "0";
      do {
        const [next, reply] = await redis.zscan(keys.paymentsDue, cursor, "COUNT", DUE_AT_ONCE);
        cursor = next;
        if (reply.length > 0) yield toScored(reply).map(({ member }) => member);
      } while (cursor !== "0");
    },
  };
}

/** How many payments there are, and when the oldest was claimed (unix ms). */
type Waiting = { payments: number; oldestAt: number | undefined };

/**
 * `settling`: payments on their way to the queue. `review`: payments that an operator has to decide about. `refund_pending`: payments
 * whose refund is exported and not seen yet; the oldest is the one that was exported first.
 */
type Unresolved = { settling: Waiting; review: Waiting; refund_pending: Waiting };

export function createUnresolved({ redis, keys }: Partition): () => Promise<Unresolved> {
  async function waiting(key: string): Promise<Waiting> {
    const [payments, oldest] = await Promise.all([
      redis.zcard(key),
      redis.zrangebyscore(key, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1),
    ]);
    return { payments, oldestAt: toScored(oldest)[0]?.score };
  }
  return async () => {
    const [settling, review, refund_pending] = await Promise.all([
      waiting(keys.paymentsUnresolved),
      waiting(keys.paymentsInReview),
      waiting(keys.refundsPending),
    ]);
    return { settling, review, refund_pending };
  };
}
