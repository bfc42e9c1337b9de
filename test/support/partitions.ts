import type { Redis } from "../../shared/redis/connect.ts";
import { DEFAULT_NAME, prefixesOf } from "../../shared/redis/keys.ts";
import { Partitioned, type Partitions, partitionOf } from "../../shared/redis/partition.ts";

/** The partitions of a test's deployment, on one server. */
export function partitionsOver(redis: Redis, count = 1): Partitions {
  const prefixes = prefixesOf(DEFAULT_NAME, count);
  return new Partitioned(prefixes.map((prefix, index) => partitionOf(redis, prefix, { index, count })));
}
