import slotOf from "cluster-key-slot";
import { partitionTables, type RedisToml, toRedisTarget } from "../config/redis-toml.ts";
import type { RedisTarget } from "../redis/connect.ts";
import { prefixOf } from "../redis/keys.ts";

/** The server of a partition and the prefix of its keys. */
export type Place = { readonly target: RedisTarget; readonly prefix: string };

/** The places of a deployment's partitions, in their order. */
export function placesOf(redis: RedisToml): Place[] {
  const { tables, sharing } = partitionTables(redis);
  const prefixes = prefixesOf(redis.name, sharing);
  return tables.flatMap((table) =>
    prefixes.map((prefix) => ({ target: toRedisTarget(table, prefix), prefix })),
  );
}

const SLOTS = 16_384;

/**
 * Begins every key and channel of each of so many partitions that share a server or a Cluster. The first has the prefix of a deployment with
 * one partition, so that a start with another number is noticed. Each has its own part of a Cluster's slots.
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
