import { inPages, mergePages, walkScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import type { FailedRef } from "./call-record.ts";
import { jobIdsOf, originOf, type QueueName } from "./queue-name.ts";
import { openRegistry } from "./registry.ts";

/** Selects by what a queue's name says and by the time of the failure (unix ms), both ends inclusive. */
export type Range = {
  origin?: string | undefined;
  serviceId?: number | undefined;
  jobId?: number | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** The order of a walk by the time of the failure; `any` is the quickest. */
export type Order = "oldest first" | "newest first" | "any";

/** Where a walk goes on: behind the call that it met last. */
export type Place = Pick<FailedRef, "failedAt" | "id">;

export const REFS_AT_ONCE = 500;

/** A walk over many queues in order reads less of each at a time, so that all together are no more than this. */
const REFS_IN_MEMORY = 20_000;
const REFS_AT_ONCE_MIN = 10;

/** Where the failed calls are and when they failed, without anything of the calls themselves. All of it comes in pages. */
export function createFailedIndex(partition: Partition) {
  const { redis, keys } = partition;
  const registry = openRegistry(partition);

  async function queuesIn({ origin, serviceId, jobId }: Range): Promise<QueueName[]> {
    return (await registry.names()).filter((queue) => {
      const ids = jobIdsOf(queue);
      if (origin !== undefined && originOf(queue) !== origin) return false;
      if (serviceId !== undefined && ids.serviceId !== serviceId) return false;
      return jobId === undefined || ids.jobIndex === jobId;
    });
  }

  async function* pagesOf(queue: QueueName, { since, until }: Range, { size, ...walk }: Walk) {
    const after = walk.after && { member: walk.after.id, score: walk.after.failedAt };
    const wanted = { min: since, max: until, highestFirst: walk.newest, size, after };
    for await (const page of walkScored(redis, keys.inQueue(queue, "failed"), wanted))
      yield page.map(({ member, score }): FailedRef => ({ id: member, queue, failedAt: score }));
  }

  async function findIn(queue: QueueName, ids: readonly string[], range: Range): Promise<FailedRef[]> {
    const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = range;
    const scores = await redis.zmscore(keys.inQueue(queue, "failed"), ...ids);
    const refs = ids.map((id, i) => ({ id, queue, failedAt: Number(scores[i] ?? Number.NaN) }));
    return refs.filter(({ failedAt }) => failedAt >= since && failedAt <= until);
  }

  return {
    /**
     * The failed calls of a range, beyond `after` if it is given, which must be of a walk in the same order. Calls that leave or arrive
     * during the walk do not shift the others. In the order "any" each page is of one queue.
     */
    async *walk(range: Range, order: Order, after?: Place): AsyncGenerator<FailedRef[]> {
      const queues = await queuesIn(range);
      if (order === "any") {
        for (const queue of queues) yield* pagesOf(queue, range, { newest: false, size: REFS_AT_ONCE });
        return;
      }
      const newest = order === "newest first";
      const share = Math.floor(REFS_IN_MEMORY / queues.length);
      const size = Math.min(REFS_AT_ONCE, Math.max(REFS_AT_ONCE_MIN, share));
      const sources = queues.map((queue) => pagesOf(queue, range, { newest, size, after }));
      yield* mergePages(sources, newest ? (a, b) => isLess(b, a) : isLess, REFS_AT_ONCE);
    },

    async count(range: Range): Promise<number> {
      const { since = "-inf", until = "+inf" } = range;
      const queues = await queuesIn(range);
      const counts = queues.map((queue) => redis.zcount(keys.inQueue(queue, "failed"), since, until));
      return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
    },

    /** Those of the calls that failed within the range, in the order of their ids here. */
    async *find(ids: readonly string[], range: Range): AsyncGenerator<FailedRef[]> {
      const queues = await queuesIn(range);
      for await (const wanted of inPages(ids, REFS_AT_ONCE)) {
        const found = new Map(wanted.map((id) => [id, [] as FailedRef[]]));
        for (const queue of queues) {
          for (const ref of await findIn(queue, wanted, range)) found.get(ref.id)?.push(ref);
        }
        yield [...found.values()].flat();
      }
    },
  };
}

type Walk = { newest: boolean; size: number; after?: Place | undefined };

/** The order of Redis, over all queues. */
export function isLess(a: Place, b: Place): boolean {
  return a.failedAt < b.failedAt || (a.failedAt === b.failedAt && a.id < b.id);
}
