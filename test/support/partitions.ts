import type { Redis } from "../../shared/redis/connect.ts";
import { DEFAULT_NAME, prefixesOf } from "../../shared/redis/keys.ts";
import { Partitioned, type Partitions, partitionOf } from "../../shared/redis/partition.ts";

/** So many partitions the services of the fixtures have, on one server: tests can be run again with several. */
const COUNT = Number(process.env["POSTERN_TEST_PARTITIONS"] ?? 1);

/** The partitions of a test's deployment, on one server. */
export function partitionsOver(redis: Redis, count = COUNT): Partitions {
  const prefixes = prefixesOf(DEFAULT_NAME, count);
  return new Partitioned(prefixes.map((prefix, index) => partitionOf(redis, prefix, { index, count })));
}
