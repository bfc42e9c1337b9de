import type { Redis } from "./connect.ts";
import { type Keys, keysOf, PREFIX } from "./keys.ts";

/**
 * Keys that lie in one slot of a Redis Cluster, and the connection that leads there. Whatever reads or writes keys is made for
 * one partition, so no script and no batch crosses two. Today there is one.
 */
export type Partition = { readonly redis: Redis; readonly prefix: string; readonly keys: Keys };

export function partitionOf(redis: Redis, prefix = PREFIX): Partition {
  return { redis, prefix, keys: keysOf(prefix) };
}
