import { inPages, mergePages, walkScored } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import type { FailedRef } from "./call-record.ts";
import { jobIdsOf, originOf, type QueueName } from "./queue-name.ts";
import { openRegistry } from "./registry.ts";

/** Selects calls by their queue's name and by the time of failure (unix ms), both ends inclusive. */
export type Range = {
  origin?: string | undefined;
  serviceId?: number | undefined;
  jobId?: number | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** Order of a walk, by time of failure. `any` is the fastest, because it reads one queue after the other. */
export type Order = "oldest first" | "newest first" | "any";

/** Position in a walk: the walk continues after this call. */
export type Place = Pick<FailedRef, "failedAt" | "id">;

export const REFS_AT_ONCE = 500;

/**
 * Maximum number of references to calls in memory. An ordered walk keeps one page of each queue in memory, so with many
 * queues it reads smaller pages.
 */
const REFS_IN_MEMORY = 20_000;
const REFS_AT_ONCE_MIN = 10;

/** Lists failed calls by queue and time of failure, in pages, without reading the calls themselves. */
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
     * Walks the failed calls of a range in the given order. With `after`, continues behind that call; `after` must come from
     * a walk in the same order. Calls that are added or removed during the walk do not make it skip or repeat others. In the
     * order "any", each page comes from one queue.
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

    /** Finds the calls with these ids that failed within the range, in the order of the ids. */
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

/** Returns whether `a` comes before `b`: ordered by time of failure, then by id, as Redis orders the calls of one queue. */
export function isLess(a: Place, b: Place): boolean {
  return a.failedAt < b.failedAt || (a.failedAt === b.failedAt && a.id < b.id);
}
