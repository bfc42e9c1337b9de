import type { Logger } from "../platform/log/logger.ts";
import { withFields } from "../platform/log/with-fields.ts";
import type { Redis } from "./connect.ts";
import { type Keys, keysOf, PREFIX } from "./keys.ts";

/**
 * Keys that lie in one slot of a Redis Cluster, and the connection that leads there. Whatever reads or writes keys is made for
 * one partition, so no script and no batch crosses two.
 */
export type Partition = {
  readonly redis: Redis;
  readonly prefix: string;
  readonly keys: Keys;
  /** Its place among the partitions of the deployment, from 0, and how many there are. */
  readonly index: number;
  readonly count: number;
};

export function partitionOf(redis: Redis, prefix = PREFIX, { index = 0, count = 1 } = {}): Partition {
  return { redis, prefix, keys: keysOf(prefix), index, count };
}

/** A log that names the partition, if there are several. */
export function logOf({ index, count }: Pick<Partition, "index" | "count">, log: Logger): Logger {
  return count === 1 ? log : withFields(log, { partition: index });
}

/** The share of each of so many partitions in a limit of the deployment. Each may have something. */
export function shareOf(limit: number, count: number): number {
  return Math.max(1, Math.floor(limit / count));
}

/** The first hex digits of a call id say in which partition the call lies. They are enough for 64 partitions of one size. */
const ROUTE_DIGITS = 3;
const ROUTE_BEGIN = "c_".length;
export const ROUTE_END = ROUTE_BEGIN + ROUTE_DIGITS;

/** Something of which each partition has one, such as its connection or the scripts on that. */
export class Partitioned<One> {
  /** By index. */
  readonly all: readonly One[];
  /** That of partition 0, which also has what belongs to no call. */
  readonly control: One;

  /** Throws if the partition of this index must not be used now. */
  readonly assertUsable: (index: number) => void;

  /** Takes at least one. */
  constructor(all: readonly One[], assertUsable = (_index: number): void => {}) {
    this.all = all;
    this.control = all[0] as One;
    this.assertUsable = assertUsable;
  }

  /** Index of the partition in which a call lies. */
  indexOf(callId: string): number {
    const { length } = this.all;
    return length === 1 ? 0 : Number.parseInt(callId.slice(ROUTE_BEGIN, ROUTE_END), 16) % length;
  }

  /** That of the partition in which a call lies. Throws if that must not be used now. */
  of(callId: string): One {
    return this.all.length === 1 ? this.control : this.at(this.indexOf(callId));
  }

  /** That of the partition of this index. Throws if that must not be used now. */
  at(index: number): One {
    this.assertUsable(index);
    return this.all[index] as One;
  }

  map<Made>(make: (one: One, index: number) => Made): Partitioned<Made> {
    return new Partitioned(this.all.map(make), this.assertUsable);
  }

  /** Guards each, and all that is made of it: it is used only while `assertUsable` does not throw. */
  guardedBy(assertUsable: (index: number) => void): Partitioned<One> {
    return new Partitioned(this.all, assertUsable);
  }
}

export type Partitions = Partitioned<Partition>;

type OfCalls = Record<string, (callId: string, ...rest: never[]) => unknown>;

/** The functions of each, whose first argument is a call's id, as one: they do their work in the partition of that call. */
export function byCall<Each extends OfCalls>(each: Partitioned<Each>): Each {
  if (each.all.length === 1) return each.control;
  const routed = Object.keys(each.control).map((name) => [
    name,
    (callId: string, ...rest: never[]) => each.of(callId)[name]?.(callId, ...rest),
  ]);
  return Object.fromEntries(routed) as Each;
}
