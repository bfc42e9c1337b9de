import { CALL_ID, callIdOfDelivery, callIdOfSignedDelivery } from "../call/call-id.ts";
import { createPaymentList } from "../payments/list.ts";
import { createCallRecords } from "../queue/call-record.ts";
import { createFailedCalls } from "../queue/failed.ts";
import { createQueuedCalls } from "../queue/queued.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import type { CallSearch, FoundCall } from "./found-call.ts";
import { createReadHistory } from "./history/read.ts";
import { NO_FIELDS, ofEnded, ofFailed, ofPayment, ofQueue, outOfQueue } from "./sources.ts";

/** If the text of a search is the id of a call, turns it into a search for that id. */
export function normalized({ text, ...search }: CallSearch): CallSearch {
  const id = text?.toLowerCase();
  return id !== undefined && CALL_ID.test(id) && search.id === undefined
    ? { ...search, id }
    : { ...search, text };
}

/** Returns the id that a search asks for; undefined without an id, or with only a prefix. */
export function wholeId({ id }: CallSearch): string | undefined {
  return id !== undefined && CALL_ID.test(id) ? id : undefined;
}

/**
 * Finds calls whose ids the search gives, directly or indirectly. A whole call id is given directly. From a delivery
 * id and the path of an endpoint, the id of the call is computed as the gateway computed it.
 */
export function createFindNamed(partitions: Partitions, paths: () => readonly string[]) {
  const finds = partitions.map(createFindCall);
  const find = (id: string) => finds.of(id)(id);
  const records = partitions.map(createCallRecords);

  /**
   * Finds a call that has a record. Most computed ids belong to no call, so the slower `find` runs only if there is
   * a record. A call without a record is left to the other sources of the search (sources.ts).
   */
  async function findRecorded(id: string): Promise<FoundCall | undefined> {
    return (await records.of(id).brief(id)) === undefined ? undefined : find(id);
  }

  return async function named(search: CallSearch): Promise<FoundCall[]> {
    const { endpoint } = search;
    const id = wholeId(search);
    if (id !== undefined) return [await find(id)].filter((call) => call !== undefined);
    const deliveryId = search.deliveryId ?? search.text;
    if (deliveryId === undefined) return [];
    const ids = (endpoint === undefined ? paths() : [endpoint]).flatMap((path) => [
      { path, id: callIdOfDelivery(path, deliveryId) },
      { path, id: callIdOfSignedDelivery(path, deliveryId) },
    ]);
    const found = await Promise.all(ids.map((each) => findRecorded(each.id)));
    // A call's record has no endpoint. But the id was computed from the endpoint's path, so the path is known.
    const known = { origin: "webhook", deliveryId };
    return found.flatMap((call, i) =>
      call === undefined ? [] : [{ ...call, ...known, endpoint: ids[i]?.path }],
    );
  };
}

/** Finds one call by its id, in any place. */
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
    return { ...NO_FIELDS, id, state: outOfQueue(state), at, job };
  };
}
