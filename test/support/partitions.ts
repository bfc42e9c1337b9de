import type { TomlTable } from "smol-toml";
import { redis as redisTable } from "../../shared/config/redis-toml.ts";
import { placesOf, prefixesOf } from "../../shared/part/places.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { connectForWork, type Redis } from "../../shared/redis/connect.ts";
import { DEFAULT_NAME } from "../../shared/redis/keys.ts";
import { Partitioned, type Partitions, partitionOf } from "../../shared/redis/partition.ts";

/** Creates the partitions of a test's deployment, all on one server. */
export function partitionsOver(redis: Redis, count = 1): Partitions {
  return partitionsOn(Array.from({ length: count }, () => redis));
}

/** A value with the id of a call: a call, a payment (whose call may be forgotten), a new payment, or the id. */
type OfCall = string | { readonly id: string } | { readonly call: { readonly id: string } };

function callIdIn(first: OfCall): string {
  if (typeof first === "string") return first;
  return "id" in first ? first.id : first.call.id;
}

/**
 * Joins the methods of each partition's object. The first argument is a call, a payment or its id, and chooses the
 * partition.
 */
export function routed<One extends object>(each: Partitioned<One>): One {
  type Method = (first: OfCall, ...rest: unknown[]) => unknown;
  return new Proxy(each.control, {
    get:
      (_, name): Method =>
      (first, ...rest) => {
        const one = each.of(callIdIn(first));
        return (Reflect.get(one, name) as Method).call(one, first, ...rest);
      },
  });
}

/** Creates one partition on each of these connections. */
export function partitionsOn(connections: readonly Redis[]): Partitions {
  const count = connections.length;
  for (const redis of connections) redis.setMaxListeners(Infinity); // several partitions may share one connection, and BullMQ adds to the limit
  const prefixes = prefixesOf(DEFAULT_NAME, count);
  return new Partitioned(
    connections.map((redis, index) => partitionOf(redis, prefixes[index], { index, count })),
  );
}

/** Opens the partitions of these `[redis]` keys, over separate connections. */
export function partitionsAt(table: TomlTable): Partitions {
  const places = placesOf(redisTable({ env: {} }).parse(table));
  const count = places.length;
  return new Partitioned(
    places.map(({ target, prefix }, index) =>
      partitionOf(connectForWork(target, silentLogger), prefix, { index, count }),
    ),
  );
}
