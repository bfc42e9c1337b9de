import { askAll, askOwn, mergeAll, mergedPage } from "../redis/merge.ts";
import { inPages } from "../redis/pages.ts";
import type { Partitions } from "../redis/partition.ts";
import { createFailedCalls, type FailedCall, type FailedCalls, sumOfGroups } from "./failed.ts";
import { isLess, REFS_AT_ONCE } from "./failed-index.ts";

/** Reads the failed calls of all partitions, in the same order as `createFailedCalls` reads those of one partition. */
export function createAllFailed(partitions: Partitions): FailedCalls {
  const each = partitions.map(createFailedCalls);
  if (each.all.length === 1) return each.control;

  async function* matching(
    ...[filter, options]: Parameters<FailedCalls["matching"]>
  ): AsyncGenerator<FailedCall> {
    const { ids, ...rest } = filter;
    const newest = options?.newestFirst;
    if (ids === undefined)
      return yield* mergeAll(
        each,
        (calls) => calls.matching(rest, options),
        newest ? (a, b) => isLess(b, a) : isLess,
      );
    for await (const some of inPages(ids, REFS_AT_ONCE)) {
      const found = await askOwn(each, some, async (calls, own) => {
        const read: FailedCall[] = [];
        for await (const call of calls.matching({ ...rest, ids: own }, options)) read.push(call);
        return read;
      });
      const placeOf = new Map(some.map((id, place) => [id, place]));
      yield* found.flat().sort((a, b) => (placeOf.get(a.id) ?? 0) - (placeOf.get(b.id) ?? 0));
      if (options?.signal?.aborted) return;
    }
  }

  return {
    matching,

    async page(filter, { after, limit }) {
      const pages = await askAll(each, (calls) => calls.page(filter, { after, limit }));
      const { items, next } = mergedPage(
        pages.map(({ calls: items, next }) => ({ items, next })),
        { limit, isBefore: (a, b) => isLess(b, a), placeOf: ({ failedAt, id }) => ({ failedAt, id }) },
      );
      return { calls: [...items], next };
    },

    async count(filter, signal) {
      const counts = await askAll(each, (calls) => calls.count(filter, signal));
      return counts.reduce((sum, count) => sum + count, 0);
    },

    groups: async (filter, signal) =>
      sumOfGroups((await askAll(each, (calls) => calls.groups(filter, signal))).flat()),

    find: (id) => each.of(id).find(id),
    head: (ref) => each.of(ref.id).head(ref),
    stored: (ref) => each.of(ref.id).stored(ref),
  };
}
