import type { Logger } from "../platform/log/logger.ts";
import { withFields } from "../platform/log/with-fields.ts";
import type { Redis } from "./connect.ts";
import { type Keys, keysOf, PREFIX } from "./keys.ts";

/**
 * A part of the deployment's keys, and the connection to the Redis that has them. In a Redis Cluster, all keys of a partition
 * are in one slot. Code that reads or writes keys is created for one partition, so no script and no batch uses keys of two.
 */
export type Partition = {
  readonly redis: Redis;
  readonly prefix: string;
  readonly keys: Keys;
  /** Index among the partitions of the deployment, from 0. `count` is their number. */
  readonly index: number;
  readonly count: number;
};

export function partitionOf(redis: Redis, prefix = PREFIX, { index = 0, count = 1 } = {}): Partition {
  return { redis, prefix, keys: keysOf(prefix), index, count };
}

/** Returns a log that adds the partition's index to each line, if there are several partitions. */
export function logOf({ index, count }: Pick<Partition, "index" | "count">, log: Logger): Logger {
  return count === 1 ? log : withFields(log, { partition: index });
}

/** Returns the share that each of `count` partitions has in a limit of the whole deployment; at least 1. */
export function shareOf(limit: number, count: number): number {
  return Math.max(1, Math.floor(limit / count));
}

/**
 * Number of hex digits at the beginning of a call id that determine its partition. With three digits, even 64 partitions get
 * about the same number of calls.
 */
const ROUTE_DIGITS = 3;
const ROUTE_BEGIN = "c_".length;
export const ROUTE_END = ROUTE_BEGIN + ROUTE_DIGITS;

/** Values that exist once for each partition, such as its connection or scripts. */
export class Partitioned<One> {
  /** Values by index. */
  readonly all: readonly One[];
  /** The value of partition 0. This partition also has the data that belongs to no call, such as operators' settings. */
  readonly control: One;

  /** Throws if the partition with this index must not be used now. */
  readonly assertUsable: (index: number) => void;

  /** Needs at least one value. */
  constructor(all: readonly One[], assertUsable = (_index: number): void => {}) {
    this.all = all;
    this.control = all[0] as One;
    this.assertUsable = assertUsable;
  }

  /** Returns the index of a call's partition. */
  indexOf(callId: string): number {
    const { length } = this.all;
    return length === 1 ? 0 : Number.parseInt(callId.slice(ROUTE_BEGIN, ROUTE_END), 16) % length;
  }

  /** Returns the value of a call's partition. Throws if that partition must not be used now. */
  of(callId: string): One {
    return this.all.length === 1 ? this.control : this.at(this.indexOf(callId));
  }

  /** Returns the value of the partition with this index. Throws if that partition must not be used now. */
  at(index: number): One {
    this.assertUsable(index);
    return this.all[index] as One;
  }

  map<Made>(make: (one: One, index: number) => Made): Partitioned<Made> {
    return new Partitioned(this.all.map(make), this.assertUsable);
  }

  /**
   * Returns the same values with `assertUsable` as a guard. They, and all values that `map` derives from them, can be used
   * only while `assertUsable` does not throw.
   */
  guardedBy(assertUsable: (index: number) => void): Partitioned<One> {
    return new Partitioned(this.all, assertUsable);
  }
}

export type Partitions = Partitioned<Partition>;

type OfCalls = Record<string, (callId: string, ...rest: never[]) => unknown>;

/**
 * Combines the partitions' objects into one. Its functions have a call's id as their first argument, and run the function of
 * that call's partition.
 */
export function byCall<Each extends OfCalls>(each: Partitioned<Each>): Each {
  if (each.all.length === 1) return each.control;
  const routed = Object.keys(each.control).map((name) => [
    name,
    (callId: string, ...rest: never[]) => each.of(callId)[name]?.(callId, ...rest),
  ]);
  return Object.fromEntries(routed) as Each;
}
