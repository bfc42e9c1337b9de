import type { Origin } from "../call/origin.ts";
import { toIngressLimits } from "../config/postern-toml.ts";
import { toDurability } from "../config/redis-toml.ts";
import type { Host } from "../part/host.ts";
import { unsettledBytesMaxOf } from "../payments/unsettled.ts";
import { systemClock } from "../platform/time/clock.ts";
import { createReadDepth } from "../queue/depth.ts";
import { redisClock } from "../redis/clock.ts";
import { createClaimData, type Deployment } from "../redis/deployment.ts";
import { DurableRedis } from "../redis/durable.ts";
import type { LargeTurns } from "../redis/large-turns.ts";
import { LargeWrites } from "../redis/large-writes.ts";
import { logOf, type Partition, shareOf } from "../redis/partition.ts";
import { createBeginWrite } from "../redis/retry-write.ts";
import { Backpressure, limitsOf } from "./backpressure.ts";
import { startEviction } from "./evict.ts";

export type IngressPartition = ReturnType<typeof openIngressPartition>;

type Options = Pick<Host, "postern" | "log" | "clock"> & {
  origin: Origin;
  deployment: Deployment | undefined;
  /** Lets only one large write run at a time on each Redis server. Several partitions may share a server. */
  largeTurns: LargeTurns;
  /** Runs with each check of Redis, once a second. */
  readSettings?: () => Promise<void>;
};

/**
 * Opens one partition of Redis for a gateway. The returned parts tell whether the partition accepts calls now, and
 * write calls to it.
 */
export function openIngressPartition(partition: Partition, options: Options) {
  const { postern, origin, deployment, largeTurns: turns, readSettings, clock = systemClock } = options;
  const { redis, count } = partition;
  const log = logOf(partition, options.log);
  const durability = toDurability(postern.redis);
  const large = new LargeWrites({ beside: partition, ...durability, deployment, turns, clock, log });
  const claimData = createClaimData(partition, deployment);
  const durable = new DurableRedis({
    redis,
    ...durability,
    async checkData() {
      await claimData();
      await readSettings?.();
    },
    patienceMs: () => large.patienceMs(),
    log,
  });
  const { queueDepthMax, queueBytesMax, ...others } = toIngressLimits(postern);
  const limits = {
    ...others,
    queueDepthMax: shareOf(queueDepthMax, count),
    queueBytesMax: shareOf(queueBytesMax, count),
  };
  const backpressure = new Backpressure({
    ...{ durable, partition, log },
    readDepth: createReadDepth(partition, origin),
    limits: limitsOf(origin, limits),
    clock: options.clock ?? redisClock(redis).now,
  });
  const eviction = startEviction({ partition, durable, webhooksAbove: limits.redisMemoryRatioMax, log });
  const deadlineMs = postern.limits.enqueue_timeout_ms;
  return {
    partition,
    /** The partition, over its connection for large writes. */
    large: large.partition,
    durable,
    backpressure,
    beginWrite: createBeginWrite({ small: durable, large, clock, deadlineMs }),
    unsettledBytesMax: () => unsettledBytesMaxOf(limits, durable.server().maxMemoryBytes),
    /**
     * Stops the timers, and closes the connection for large writes, which the gateway itself has opened. The host's
     * connection stays open.
     */
    close(): void {
      backpressure.stop();
      eviction.stop();
      durable.stop();
      large.close();
    },
  };
}
