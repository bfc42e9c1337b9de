import { z } from "zod";
import { createUnresolved, sumOfUnresolved, type Unresolved } from "../../payments/list.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import type { QueueName } from "../../queue/queue-name.ts";
import { openRegistry, type QueueDepth, sumOfDepths } from "../../queue/registry.ts";
import type { Redis } from "../../redis/connect.ts";
import { addressOf } from "../../redis/connector.ts";
import { askOne } from "../../redis/merge.ts";
import type { Partition, Partitions } from "../../redis/partition.ts";
import { type DurabilityMode, readServerState } from "../../redis/server-state.ts";
import { count } from "../view.ts";

/** Durability and memory of Redis, over all partitions. */
export const RedisView = z.object({
  durability: z.string(),
  /**
   * Says why Redis may lose accepted calls, and what to do; null if it loses none. If there are several partitions,
   * names the partition.
   */
  problem: z.string().nullable(),
  /**
   * Evidence with which a write is proven to be on disk, such as an fsync before the reply. Null without evidence.
   */
  proof: z.string().nullable(),
  /** Memory used in the fullest partition, which is the one that uses the largest fraction of its limit. */
  used_memory_bytes: count.nullable(),
  /** Memory limit of that partition; 0 if its Redis has no limit. */
  max_memory_bytes: count.nullable(),
});
type RedisView = z.infer<typeof RedisView>;

/** A partition of the deployment. */
export const PartitionView = z
  .object({
    /** Index of the partition, from 0. The first one also has all data that belongs to no call. */
    index: count,
    /**
     * `host:port` of the partition's server, or the path of its socket. Null while it is not known which server is
     * the primary.
     */
    address: z.string().nullable(),
    /** False if the partition is unavailable. The counts of the overview then lack its calls and payments. */
    reachable: z.boolean(),
    /** Says why this partition may lose accepted calls or cannot be used; null if neither is so. */
    problem: z.string().nullable(),
    /** Calls that wait, are delayed or are held. Null if the partition is unreachable, as the other counts are. */
    waiting: count.nullable(),
    used_memory_bytes: count.nullable(),
    max_memory_bytes: count.nullable(),
  })
  .meta({ id: "Partition" });
type PartitionView = z.infer<typeof PartitionView>;

type Depths = (QueueDepth & { queue: QueueName })[];
type Read = { view: PartitionView; proof: string | null; depths: Depths; unresolved?: Unresolved };

/**
 * Reads the state of the Redis server of each partition, the counts of its queues, and its unresolved payments.
 * Reports an unavailable partition, but throws if it is the first one.
 */
export function createReadRedis(partitions: Partitions, durability: DurabilityMode) {
  const parts = partitions.map((partition) => {
    const registry = openRegistry(partition);
    return { partition, registry, readUnresolved: createUnresolved(partition) };
  });

  async function readOne({ partition, registry, readUnresolved }: (typeof parts)["control"]): Promise<Read> {
    const { redis, index } = partition;
    const address = addressOf(redis);
    try {
      const [server, depths, unresolved] = await askOne(parts, index, () =>
        Promise.all([readServer(redis, durability), registry.depths(), readUnresolved()]),
      );
      const { waiting, delayed, held } = sumOfDepths(depths);
      const { proof, problem: found, ...memory } = server;
      const problem = found === null ? null : inPartition(partition, found);
      const view = { index, address, reachable: true, problem, waiting: waiting + delayed + held, ...memory };
      return { view, proof, depths, unresolved };
    } catch (error) {
      if (index === 0 || !(error instanceof AppError)) throw error;
      const view = { index, address, reachable: false, problem: error.message };
      return { view: { ...view, waiting: null, ...NO_MEMORY }, proof: null, depths: [] };
    }
  }

  return async function readRedis() {
    const read = await Promise.all(parts.all.map(readOne));
    const views = read.map(({ view }) => view);
    const [fullest = NO_MEMORY] = [...views].sort((a, b) => usedFraction(b) - usedFraction(a));
    const { used_memory_bytes, max_memory_bytes } = fullest;
    const problem = views.find((view) => view.problem !== null)?.problem ?? null;
    const proof = problem === null ? (read[0]?.proof ?? null) : null;
    return {
      depths: read.flatMap(({ depths }) => depths),
      unresolved: sumOfUnresolved(read.flatMap(({ unresolved }) => unresolved ?? [])),
      redis: { durability, problem, proof, used_memory_bytes, max_memory_bytes } satisfies RedisView,
      partitions: views,
    };
  };
}

const NO_MEMORY = { used_memory_bytes: null, max_memory_bytes: null };

/**
 * Returns the used fraction of a server's memory, to find the fullest server. If no server has a limit, the one
 * that uses most is the fullest.
 */
function usedFraction({ used_memory_bytes: used, max_memory_bytes: max }: PartitionView): number {
  if (used === null || max === null) return -1;
  return max === 0 ? used / Number.MAX_SAFE_INTEGER : used / max;
}

function inPartition({ index, count }: Partition, problem: string): string {
  return count === 1 ? problem : `partition ${index} of ${count}: ${problem}`;
}

/** Checks whether Redis now has the configured durability, and reads its memory use. */
async function readServer(redis: Redis, durability: DurabilityMode) {
  try {
    const { proof, usedMemoryBytes, maxMemoryBytes } = await readServerState(redis, durability);
    return {
      problem: null,
      proof,
      used_memory_bytes: usedMemoryBytes,
      max_memory_bytes: maxMemoryBytes,
    };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { problem: error.message, proof: null, ...NO_MEMORY };
  }
}
