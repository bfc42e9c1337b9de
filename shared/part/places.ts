import { type RedisToml, toRedisTarget } from "../config/redis-toml.ts";
import type { RedisTarget } from "../redis/connect.ts";
import { prefixesOf } from "../redis/keys.ts";

/** The server of a partition and the prefix of its keys. */
export type Place = { readonly target: RedisTarget; readonly prefix: string };

/** The places of a deployment's partitions, in their order. */
export function placesOf(redis: RedisToml): Place[] {
  return prefixesOf(redis.name, 1).map((prefix) => ({
    target: toRedisTarget(redis, prefix),
    prefix,
  }));
}
