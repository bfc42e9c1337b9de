import slotOf from "cluster-key-slot";
import { partitionTables, type RedisToml, toRedisTarget } from "../config/redis-toml.ts";
import type { RedisTarget } from "../redis/connect.ts";
import { prefixOf } from "../redis/keys.ts";

/** The server of a partition, and the prefix of its keys. */
export type Place = { readonly target: RedisTarget; readonly prefix: string };

/** Returns the places of a deployment's partitions, in order. */
export function placesOf(redis: RedisToml): Place[] {
  const { tables, sharing } = partitionTables(redis);
  const prefixes = prefixesOf(redis.name, sharing);
  return tables.flatMap((table) =>
    prefixes.map((prefix) => ({ target: toRedisTarget(table, prefix), prefix })),
  );
}

const SLOTS = 16_384;

/**
 * Returns a prefix of keys and channels for each of the `count` partitions that share a server or a Cluster. The slots of a
 * Cluster are divided into `count` ranges. Each prefix is in a different range, so that the partitions are on different nodes if
 * possible. The first prefix does not depend on `count`. So a start with another number of partitions still finds the data of
 * partition 0, and is refused.
 */
export function prefixesOf(name: string, count: number): string[] {
  const partOf = (prefix: string) => Math.floor((slotOf(prefix) * count) / SLOTS);
  const first = prefixOf(name);
  return Array.from({ length: count }, (_, index) => {
    const part = (partOf(first) + index) % count;
    let prefix = first;
    for (let tried = 0; partOf(prefix) !== part; tried++) prefix = prefixOf(`${name}.${index}.${tried}`);
    return prefix;
  });
}
