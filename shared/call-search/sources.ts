import { idsOfKey, type JobIds, jobKey } from "../call/job-ids.ts";
import { hasText } from "../call/search-text.ts";
import { createPaymentList, type PaymentSummary } from "../payments/list.ts";
import { createFailedCalls, type FailedCall, toFailure } from "../queue/failed.ts";
import type { FailedHead } from "../queue/failed-head.ts";
import { jobOf, originOf } from "../queue/queue-name.ts";
import { createQueuedCalls, QUEUED_STATES, type QueuedCall } from "../queue/queued.ts";
import { readIn } from "../redis/merge.ts";
import { inPages } from "../redis/pages.ts";
import { type Partition, type Partitions, ROUTE_END } from "../redis/partition.ts";
import type { CallSearch, CallState, FoundCall } from "./found-call.ts";
import type { EndedCall } from "./history/block.ts";
import { createHistoryPages } from "./history/read.ts";

/** Pages of calls, newest first. Some of these calls may not match the search. */
export type Source = AsyncGenerator<FoundCall[]>;

/** Time limit of a search, and whether the search had to leave out calls. */
export type Limits = {
  /** Aborted once the search's time is up. */
  signal: AbortSignal;
  /** Set to true if a queue has more calls than a search reads, so that only the newest ones were read. */
  isCut: boolean;
};

/** States of payments for which Redis has a list, so that a search reads only the payments in that state. */
const LISTED = ["settling", "review", "refund_pending"] as const;
/** States of payments for which Redis has no list. To find payments in these states, a search must scan all payments. */
const UNLISTED = ["void", "discarded", "refunded"] as const;

/**
 * Returns the sources that may have matching calls. The first digits of a call id determine the partition of the call. If
 * the search gives these digits, only the sources of that partition are returned, otherwise the sources of all partitions.
 */
export function createAllSources(partitions: Partitions): (search: CallSearch, limits: Limits) => Source[] {
  const each = partitions.map(createSources);
  return (search, limits) => {
    const { id = "" } = search;
    if (id.length >= ROUTE_END) return each.of(id)(search, limits);
    return each.all.flatMap((sourcesOf, index) =>
      sourcesOf(search, limits).map((source) => readIn(each, index, source)),
    );
  };
}

function createSources(partition: Partition) {
  const queued = createQueuedCalls(partition);
  const failed = createFailedCalls(partition);
  const history = createHistoryPages(partition);
  const payments = createPaymentList(partition);

  /**
   * Returns the sources of calls that are in no queue and whose payment is stored. A search may give neither a state nor
   * data that identifies a payment. It then gets only payments whose outcome is not known yet: those that are settling or in
   * review.
   */
  function ofPayments(search: CallSearch, signal: AbortSignal): Source[] {
    const { state, origin, endpoint, deliveryId, event, code, payer, since, until } = search;
    if ([endpoint, deliveryId, event, code].some((each) => each !== undefined) || origin === "webhook")
      return [];
    const isAsked = (each: CallState, isOpen: boolean) =>
      state === undefined ? isOpen || namesPayment(search) : each === state;
    const listed = LISTED.filter((each) => isAsked(each, each !== "refund_pending"));
    const unlisted = UNLISTED.filter((each) => isAsked(each, false));
    return [...listed.map((each) => [each]), ...(unlisted.length === 0 ? [] : [unlisted])].map((states) => {
      const upper = states.map((each) => each.toUpperCase() as PaymentSummary["state"]);
      return mapped(payments.matching({ states: upper, payer, since, until }, signal), ofPayment);
    });
  }

  function ofFailures(
    { job, state: _, id: __, text: ___, ...filter }: CallSearch,
    signal: AbortSignal,
  ): Source {
    const { serviceId, jobIndex: jobId }: Partial<JobIds> = job === undefined ? {} : idsOfKey(job);
    return mapped(failed.matching({ ...filter, serviceId, jobId }, { newestFirst: true, signal }), ofFailed);
  }

  function ofQueues({ state, origin, job, since, until }: CallSearch, limits: Limits): Source {
    const filter = { state: QUEUED_STATES.find((each) => each === state), origin, job, since, until };
    const onCut = (): void => {
      limits.isCut = true;
    };
    return mapped(queued.matching(filter, onCut, limits.signal), ofQueue);
  }

  async function* ofHistory(search: CallSearch, signal: AbortSignal): Source {
    for await (const page of history(search, signal)) yield page.map(ofEnded);
  }

  return (search: CallSearch, limits: Limits): Source[] => {
    const { state } = search;
    const { signal } = limits;
    const may = (...states: readonly CallState[]) => states.some((each) => isIn(each, state));
    return [
      ...ofPayments(search, signal),
      ...(may(...QUEUED_STATES) ? [ofQueues(search, limits)] : []),
      ...(may("failed") ? [ofFailures(search, signal)] : []),
      ...(may("injected") ? [ofHistory(search, signal)] : []),
    ];
  };
}

/**
 * Returns whether the search names a call, payer or transaction, or has a text that begins like one of them. If so, payments
 * in any state can match the search.
 */
function namesPayment({ id, payer, transaction, text = "" }: CallSearch): boolean {
  return [id, payer, transaction].some((each) => each !== undefined) || /^(?:c_|0x)/i.test(text);
}

async function* mapped<Item>(source: AsyncGenerator<Item>, to: (item: Item) => FoundCall): Source {
  for await (const page of inPages(source, 1)) yield page.map(to);
}

const SAME = ["deliveryId", "endpoint", "payer", "transaction", "event", "code", "origin", "job"] as const;

export function isFound(call: FoundCall, search: CallSearch): boolean {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY, text } = search;
  return (
    SAME.every((name) => search[name] === undefined || search[name] === call[name]) &&
    isIn(call.state, search.state) &&
    call.id.startsWith(search.id ?? "") &&
    (text === undefined || hasText(call, text)) &&
    call.at >= since &&
    call.at <= until
  );
}

/**
 * Returns whether a call's state matches the state that the search asks for. If the search asks for none, every state
 * matches.
 */
function isIn(state: CallState, asked: CallSearch["state"]): boolean {
  if (asked === "queued") return state === "missing" || QUEUED_STATES.some((each) => each === state);
  return asked === undefined || asked === state;
}

/**
 * Returns the state to show for a call that is in no queue. `state` is the state in the call's record. If the record says
 * that the call is queued, its queue has lost it, so the call is `missing`.
 */
export function outOfQueue(state: PaymentSummary["state"]): CallState {
  return state === "QUEUED" ? "missing" : (state.toLowerCase() as CallState);
}

export const NO_FIELDS = {
  origin: undefined,
  job: undefined,
  endpoint: undefined,
  deliveryId: undefined,
  payer: undefined,
  transaction: undefined,
  event: undefined,
  acceptedAt: undefined,
  endedAt: undefined,
  attempts: undefined,
  code: undefined,
  reason: undefined,
};

function ofHead({ path, accepted_at, delivery_id, payer, transaction, event }: FailedHead) {
  return { endpoint: path, acceptedAt: accepted_at, deliveryId: delivery_id, payer, transaction, event };
}

export function ofQueue({ id, queue, state, updatedAt, attempts, head, error }: QueuedCall): FoundCall {
  const place = { origin: originOf(queue), job: jobOf(queue) };
  return { ...NO_FIELDS, ...ofHead(head), id, state, at: updatedAt, ...place, attempts, ...ofError(error) };
}

export function ofFailed({
  id,
  queue,
  failedAt,
  acceptedAt,
  attempts,
  code,
  reason,
  head,
}: FailedCall): FoundCall {
  const place = { origin: originOf(queue), job: jobOf(queue) };
  const known = { ...ofHead(head), acceptedAt, attempts, code, reason };
  return { ...NO_FIELDS, id, state: "failed", at: failedAt, ...place, ...known };
}

/**
 * Converts a call of the history. Writes out all fields instead of spreading objects, which is slower, because one count may
 * convert half a million calls.
 */
export function ofEnded(call: EndedCall): FoundCall {
  const { code, reason } = ofError(call.error);
  return {
    id: call.id,
    state: "injected",
    at: call.endedAt,
    origin: originOf(call.queue),
    job: jobOf(call.queue),
    endpoint: call.endpoint,
    deliveryId: call.deliveryId,
    payer: call.payer,
    transaction: call.transaction,
    event: call.event,
    acceptedAt: call.acceptedAt,
    endedAt: call.endedAt,
    attempts: call.attempts,
    code,
    reason,
  };
}

const NO_ERROR = { code: undefined, reason: undefined };

function ofError(error: string | undefined): Pick<FoundCall, "code" | "reason"> {
  return error === undefined ? NO_ERROR : toFailure(error);
}

export function ofPayment({ id, state, terms, claimedAt, settlement, reason }: PaymentSummary): FoundCall {
  const job = jobKey({ serviceId: terms.service_id, jobIndex: terms.job_index });
  const known = { payer: terms.payer, transaction: settlement?.transaction, acceptedAt: claimedAt, reason };
  return {
    ...NO_FIELDS,
    id,
    state: outOfQueue(state),
    at: claimedAt,
    origin: "x402",
    job,
    ...known,
  };
}
