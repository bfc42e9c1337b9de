import { CALL_ID, callIdOfDelivery, callIdOfSignedDelivery } from "../call/call-id.ts";
import { idsOfKey, type JobIds, jobKey } from "../call/job-ids.ts";
import { createPaymentList, type PaymentSummary } from "../payments/list.ts";
import { createCallRecords } from "../queue/call-record.ts";
import { createFailedCalls, type FailedCall } from "../queue/failed.ts";
import type { FailedHead } from "../queue/failed-head.ts";
import { jobOf, originOf } from "../queue/queue-name.ts";
import { createQueuedCalls, QUEUED_STATES, type QueuedCall } from "../queue/queued.ts";
import { inPages, mergePages } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import type { CallSearch, CallState, FoundCall, PageCursor, SearchCalls } from "./found-call.ts";
import type { EndedCall } from "./history/block.ts";
import { createReadHistory } from "./history/read.ts";

const PAYMENT_STATES = ["settling", "review", "void", "discarded", "refund_pending", "refunded"] as const;

type Options = {
  /** The paths of the endpoints that there are, by which a delivery is found whatever became of its call. */
  paths: () => readonly string[];
  /** After so many ms a search ends with what it has found. */
  patienceMs: number;
};

/**
 * Looks for calls wherever there are some: in the queues, among those that failed, among those that runners took lately, and among
 * payments. Without a state, of the calls that are no longer anywhere only those with an id, or a delivery id of a known endpoint, are
 * found. It reads no large body, and costs a bounded time.
 */
export function createSearchCalls(partition: Partition, { paths, patienceMs }: Options): SearchCalls {
  const find = createFindCall(partition);
  const sourcesOf = createSources(partition);

  /** Those whose id follows from what is asked for. */
  async function named(search: CallSearch): Promise<FoundCall[]> {
    const { deliveryId, endpoint } = search;
    const id = wholeId(search);
    if (id !== undefined || deliveryId === undefined) {
      const call = id === undefined ? undefined : await find(id);
      return call === undefined ? [] : [call];
    }
    const ids = (endpoint === undefined ? paths() : [endpoint]).flatMap((path) => [
      { path, id: callIdOfDelivery(path, deliveryId) },
      { path, id: callIdOfSignedDelivery(path, deliveryId) },
    ]);
    const found = await Promise.all(ids.map((each) => find(each.id)));
    // The record of a call does not say where it came in, but the id follows from that.
    const known = { origin: "webhook", deliveryId };
    return found.flatMap((call, i) =>
      call === undefined ? [] : [{ ...call, ...known, endpoint: ids[i]?.path }],
    );
  }

  return async function search(asked, { limit = 50, after } = {}) {
    const wanted = from(asked, after);
    const limits = { signal: AbortSignal.timeout(patienceMs), isCut: false };
    const known = (await named(asked)).sort(newestFirst);
    const sources = wholeId(asked) === undefined ? sourcesOf(wanted, limits) : [];
    const found = await firstOf(merged([toSource(known), ...sources]), wanted, limit + 1, after?.ids);
    const calls = found.slice(0, limit);
    const hasMore = found.length > limit;
    return {
      calls,
      next: hasMore ? cursorOf(calls, after) : undefined,
      isComplete: !limits.isCut && !isUnlisted(asked) && (hasMore || !limits.signal.aborted),
      isUnlisted: isUnlisted(asked),
    };
  };
}

/** The id that a search names; undefined if it names none, or only a prefix. */
function wholeId({ id }: CallSearch): string | undefined {
  return id !== undefined && CALL_ID.test(id) ? id : undefined;
}

/** Whether calls in this state may be known by their records alone, which are found only by an id. */
function isUnlisted({ id, deliveryId, endpoint, origin, state }: CallSearch): boolean {
  if (id !== undefined || (deliveryId !== undefined && endpoint !== undefined)) return false;
  return state === "missing" || (state === "discarded" && origin !== "x402");
}

/** What is left to find after a page. */
function from(asked: CallSearch, after: PageCursor | undefined): CallSearch {
  return after === undefined ? asked : { ...asked, until: Math.min(asked.until ?? after.at, after.at) };
}

/** So many calls that match, none twice, without those that were seen. */
async function firstOf(source: Source, wanted: CallSearch, count: number, before: readonly string[] = []) {
  const seen = new Set(before);
  const calls: FoundCall[] = [];
  for await (const call of source) {
    const beginning = beginningOf(call);
    if (seen.has(beginning) || !isFound(call, wanted)) continue;
    seen.add(beginning);
    calls.push(call);
    if (calls.length === count) break;
  }
  return calls;
}

/** What bounds a search. */
type Limits = {
  /** Aborted once its time is up. */
  signal: AbortSignal;
  /** Whether a queue holds more calls than were looked at. */
  isCut: boolean;
};

function cursorOf(calls: readonly FoundCall[], after: PageCursor | undefined): PageCursor | undefined {
  const at = calls.at(-1)?.at;
  if (at === undefined) return after;
  const ids = calls.filter((call) => call.at === at).map(beginningOf);
  return { at, ids: after?.at === at ? [...after.ids, ...ids] : ids };
}

/** Enough of an id to tell calls apart that are found by one search; a cursor may have hundreds. */
function beginningOf({ id }: FoundCall): string {
  return id.slice(0, 14);
}

/** Finds one call by its id, wherever it is. */
function createFindCall(partition: Partition) {
  const queued = createQueuedCalls(partition);
  const failed = createFailedCalls(partition);
  const history = createReadHistory(partition);
  const payments = createPaymentList(partition);
  const records = createCallRecords(partition);

  return async function find(id: string): Promise<FoundCall | undefined> {
    const inQueue = (await queued.find(id)) ?? undefined;
    if (inQueue !== undefined) return ofQueue(inQueue);
    const asFailed = await failed.find(id);
    if (asFailed !== undefined) return ofFailed(asFailed);
    const [[payment], record] = await Promise.all([payments.read([id]), records.brief(id)]);
    if (payment !== undefined && payment.state !== "INJECTED") return ofPayment(payment);
    for await (const ended of history({ id })) return ofEnded(ended);
    if (payment !== undefined) return ofPayment(payment);
    if (record === undefined) return undefined;
    const { state, at, job } = record;
    return { ...NOTHING, id, state: outOfQueue(state), at, job };
  };
}

type Source = AsyncGenerator<FoundCall>;

/** The places in which calls that match may be, each newest first. */
function createSources(partition: Partition) {
  const queued = createQueuedCalls(partition);
  const failed = createFailedCalls(partition);
  const history = createReadHistory(partition);
  const payments = createPaymentList(partition);

  /** What no queue holds: without a state or an id, the payments of which nothing is known yet. */
  function ofPayments(
    { id, state, origin, endpoint, deliveryId, payer, since, until }: CallSearch,
    signal: AbortSignal,
  ) {
    if (endpoint !== undefined || deliveryId !== undefined || origin === "webhook") return [];
    const states = PAYMENT_STATES.filter((each) =>
      state === undefined ? id !== undefined || each === "settling" || each === "review" : each === state,
    );
    return states.map((each) => {
      const filter = { states: [each.toUpperCase() as PaymentSummary["state"]], payer, since, until };
      return mapped(payments.matching(filter, signal), ofPayment);
    });
  }

  function ofFailures({ job, state: _, id: __, ...filter }: CallSearch, signal: AbortSignal): Source {
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

  return (search: CallSearch, limits: Limits): Source[] => {
    const { state } = search;
    const { signal } = limits;
    const may = (...states: readonly CallState[]) => states.some((each) => isIn(each, state));
    return [
      ...(may(...QUEUED_STATES) ? [ofQueues(search, limits)] : []),
      ...(may("failed") ? [ofFailures(search, signal)] : []),
      ...(may("injected") ? [mapped(history(search, signal), ofEnded)] : []),
      ...ofPayments(search, signal),
    ];
  };
}

async function* mapped<Item>(source: AsyncGenerator<Item>, to: (item: Item) => FoundCall): Source {
  for await (const item of source) yield to(item);
}

async function* toSource(calls: readonly FoundCall[]): Source {
  yield* calls;
}

/** Their order is not exact if calls move meanwhile. */
async function* merged(sources: readonly Source[]): Source {
  const one = sources.map((source) => inPages(source, 1));
  for await (const page of mergePages(one, (a, b) => newestFirst(a, b) < 0, 1)) yield* page;
}

function newestFirst(a: FoundCall, b: FoundCall): number {
  return b.at - a.at || (a.id < b.id ? 1 : -1);
}

function isFound(call: FoundCall, search: CallSearch): boolean {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = search;
  const same = (["deliveryId", "endpoint", "payer", "transaction", "origin", "job"] as const).every(
    (name) => search[name] === undefined || search[name] === call[name],
  );
  return (
    same &&
    isIn(call.state, search.state) &&
    call.id.startsWith(search.id ?? "") &&
    call.at >= since &&
    call.at <= until
  );
}

/** Whether a state is the one that is asked for, if one is. */
function isIn(state: CallState, asked: CallSearch["state"]): boolean {
  if (asked === "queued") return state === "missing" || QUEUED_STATES.some((each) => each === state);
  return asked === undefined || asked === state;
}

/** The state of a call that is in no queue, by its record. */
function outOfQueue(state: PaymentSummary["state"]): CallState {
  return state === "QUEUED" ? "missing" : (state.toLowerCase() as CallState);
}

const NOTHING = {
  origin: undefined,
  job: undefined,
  endpoint: undefined,
  deliveryId: undefined,
  payer: undefined,
  transaction: undefined,
  acceptedAt: undefined,
  endedAt: undefined,
  attempts: undefined,
  code: undefined,
  reason: undefined,
};

function ofHead({ path, accepted_at, delivery_id, payer, transaction }: FailedHead) {
  return { endpoint: path, acceptedAt: accepted_at, deliveryId: delivery_id, payer, transaction };
}

function ofQueue({ id, queue, state, queuedAt, attempts, head }: QueuedCall): FoundCall {
  const place = { origin: originOf(queue), job: jobOf(queue) };
  return { ...NOTHING, ...ofHead(head), id, state, at: queuedAt, ...place, attempts };
}

function ofFailed({ id, queue, failedAt, acceptedAt, attempts, code, reason, head }: FailedCall): FoundCall {
  const place = { origin: originOf(queue), job: jobOf(queue) };
  const known = { ...ofHead(head), acceptedAt, attempts, code, reason };
  return { ...NOTHING, id, state: "failed", at: failedAt, ...place, ...known };
}

function ofEnded({ id, queue, endedAt, ...known }: EndedCall): FoundCall {
  const place = { origin: originOf(queue), job: jobOf(queue) };
  return { ...NOTHING, id, state: "injected", at: endedAt, endedAt, ...place, ...known };
}

function ofPayment({ id, state, terms, claimedAt, settlement, reason }: PaymentSummary): FoundCall {
  const job = jobKey({ serviceId: terms.service_id, jobIndex: terms.job_index });
  const known = { payer: terms.payer, transaction: settlement?.transaction, acceptedAt: claimedAt, reason };
  return {
    ...NOTHING,
    id,
    state: outOfQueue(state),
    at: claimedAt,
    origin: "x402",
    job,
    ...known,
  };
}
