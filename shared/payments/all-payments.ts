import { askAll, askOne, askOwn, mergeAll, mergedPage, readIn } from "../redis/merge.ts";
import type { Partitions } from "../redis/partition.ts";
import {
  createPaymentList,
  type PaymentFilter,
  type PaymentList,
  type PaymentPlace,
  type PaymentSummary,
} from "./list.ts";
import { routeOfPayer } from "./payment.ts";

export type AllPayments = ReturnType<typeof createAllPayments>;

/**
 * Reads the payments of all partitions, in the same orders as `PaymentList`. All payments of a payer are in one partition, so
 * a query for one payer reads only that partition.
 */
export function createAllPayments(partitions: Partitions) {
  const each = partitions.map(createPaymentList);

  /** Returns the index of the only partition that can have matching payments. Undefined if every partition can have some. */
  function onlyIn({ payer }: PaymentFilter): number | undefined {
    if (each.all.length === 1) return 0;
    return payer === undefined ? undefined : each.indexOf(routeOfPayer(payer));
  }

  return {
    /** Reads the payments with these ids, in the order of `ids`. Undefined for an id that is unknown or has expired. */
    async read(ids: readonly string[]): Promise<(PaymentSummary | undefined)[]> {
      const found = await askOwn(each, ids, (payments, own) => payments.read(own));
      const byId = new Map(found.flat().flatMap((payment) => (payment ? [[payment.id, payment]] : [])));
      return ids.map((id) => byId.get(id));
    },

    /**
     * Reads the ids of the calls that these transfers pay for, in the order of the transfers. A transfer can only pay for a
     * call of its sender, so each is looked up only in the partition of its sender.
     */
    async paidBy(
      network: string,
      transfers: readonly { transaction: string; position: number; from: string }[],
    ): Promise<(string | undefined)[]> {
      const paid = new Map<(typeof transfers)[number], string | undefined>();
      await askAll(each, async (payments, index) => {
        const own = transfers.filter(({ from }) => each.indexOf(routeOfPayer(from)) === index);
        const ids = await payments.paidBy(network, own);
        for (const [i, transfer] of own.entries()) paid.set(transfer, ids[i]);
      });
      return transfers.map((transfer) => paid.get(transfer));
    },

    /** Yields the payments that match, newest first. */
    async *matching(filter: PaymentFilter, signal?: AbortSignal): AsyncGenerator<PaymentSummary> {
      const read = (payments: PaymentList) => payments.matching(filter, signal);
      const only = onlyIn(filter);
      if (only === undefined) yield* mergeAll(each, read, (a, b) => isNewer(toPlace(a), toPlace(b)));
      else yield* readIn(each, only, read(each.all[only] as PaymentList));
    },

    /** Yields the matching payments that became disputed by `until` (`PaymentList`), one partition after the other. */
    async *disputed(filter: PaymentFilter, until: number): AsyncGenerator<PaymentSummary> {
      const only = onlyIn(filter);
      for (const [index, payments] of each.all.entries())
        if (only === undefined || only === index)
          yield* readIn(each, index, payments.disputed(filter, until));
    },

    /** Reads up to `limit` matching payments, in the order of `PaymentList`. */
    async page(
      filter: PaymentFilter,
      { after, limit }: { after?: PaymentPlace | undefined; limit: number },
    ): Promise<{ payments: PaymentSummary[]; next: PaymentPlace | undefined }> {
      const ask = (payments: PaymentList) => payments.page(filter, { after, limit });
      const only = onlyIn(filter);
      const pages = only === undefined ? await askAll(each, ask) : [await askOne(each, only, ask)];
      const { items, next } = mergedPage(pages, { limit, isBefore: isNewer, placeOf: ({ place }) => place });
      return { payments: items.map(({ payment }) => payment), next };
    },
  };
}

const toPlace = ({ claimedAt: at, id }: PaymentSummary): PaymentPlace => ({ at, id });

function isNewer(a: PaymentPlace, b: PaymentPlace): boolean {
  return a.at > b.at || (a.at === b.at && a.id > b.id);
}
