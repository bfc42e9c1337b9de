import type { Origin } from "../call/origin.ts";
import { createChanges } from "../call/results/changes.ts";
import { createResults } from "../call/results/store.ts";
import { toLimits, toProxyOptions } from "../config/postern-toml.ts";
import { toDurability } from "../config/redis-toml.ts";
import { toAskOptions } from "../config/results-toml.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import { createClientAddressOf } from "../http/client-address.ts";
import type { Host } from "../part/host.ts";
import type { ComposedServer } from "../part/part.ts";
import { systemClock } from "../platform/time/clock.ts";
import { createReadDepth } from "../queue/depth.ts";
import { redisClock } from "../redis/clock.ts";
import { createClaimData, type Deployment } from "../redis/deployment.ts";
import { DurableRedis } from "../redis/durable.ts";
import { LargeWrites } from "../redis/large-writes.ts";
import type { Partition } from "../redis/partition.ts";
import { createBeginWrite } from "../redis/retry-write.ts";
import { Admission } from "./admission.ts";
import { createAwaitResults } from "./await-result.ts";
import { Backpressure, limitsOf, unsettledBytesMaxOf } from "./backpressure.ts";
import { createCallStreams } from "./call-streams.ts";
import type { ResultWrites } from "./deliveries.ts";
import { startEviction } from "./evict.ts";

/** A gateway of either kind, as its process holds it. */
export type Gateway = ComposedServer & ReturnType<typeof openIngress>["gateway"];

type IngressHost = Pick<Host, "postern" | "partitions" | "log" | "clock" | "deployments">;

/**
 * What both gateways are composed of: whether calls can be taken now, how one is added, and what its request may cost before. `readSettings`
 * is part of each check of Redis, once a second.
 */
export function openIngress(
  origin: Origin,
  host: IngressHost,
  readSettings: () => Promise<void> = async () => {},
) {
  const { postern, log, clock = systemClock } = host;
  const [partition, deployment] = [host.partitions.control, host.deployments?.control];
  const { redis } = partition;
  const redisTime = host.clock ?? redisClock(redis).now;
  const durability = toDurability(postern.redis);
  const large = new LargeWrites({ beside: partition, ...durability, deployment, clock, log });
  const durable = new DurableRedis({
    redis,
    ...durability,
    checkData: createCheckData(partition, deployment, readSettings),
    patienceMs: () => large.patienceMs(),
    log,
  });
  const limits = toLimits(postern);
  const readDepth = createReadDepth(partition, origin);
  const ofQueue = { durable, partition, readDepth, limits: limitsOf(origin, limits) };
  const backpressure = new Backpressure({ ...ofQueue, clock: redisTime, log });
  const eviction = startEviction({ partition, durable, webhooksAbove: limits.redisMemoryRatioMax, log });
  const clientAddressOf = createClientAddressOf(toProxyOptions(postern));
  const bodies = createBodyBudget({
    bytesMax: postern.http.body_budget_bytes,
    addressOf: clientAddressOf,
    log,
  });
  const deadlineMs = postern.limits.enqueue_timeout_ms;
  const beginWrite = createBeginWrite({ small: durable, large, clock, deadlineMs });
  const admission = new Admission(durable, backpressure);
  const { changes, ...asked } = openResults(partition, { postern, clock, log });
  const { waits, streams } = asked;
  const endWaits = (): void => {
    waits.end();
    streams.end();
  };
  return {
    ...asked,
    clientAddressOf,
    bodies,
    admission,
    /** For what is written to Redis, compared with what it holds, or agreed on with other processes. */
    redisTime,
    /** The keys over the connection for large writes. */
    largePartition: large.partition,
    beginWrite,
    isUsable: () => durable.isUsable,
    unsettledBytesMax: () => unsettledBytesMaxOf(limits, durable.server().maxMemoryBytes),
    firstCheck: durable.firstCheck,
    /** What gateways of both kinds have for their process. */
    gateway: {
      pressure: () => backpressure.seen(),
      /** Bytes of the bodies in flight. */
      bodyBytes: bodies.bytes,
      /** Number of clients that wait for a result. */
      waiting: waits.count,
      /** Number of open call streams. */
      streaming: streams.count,
      /** Writes of what runners deliver, which only the gateway's process takes. */
      resultWrites: { small: partition, large: large.partition, beginWrite } satisfies ResultWrites,
      /** The gateway is not ready from now on. Waits for results and streams end, and requests are still taken. */
      drain(): void {
        admission.drain();
        endWaits();
      },
      /** Requests are refused from now on, with `service.draining`. */
      stop(): void {
        admission.stop();
        endWaits();
      },
    },
    /** Ends the timers, and the connections beside the host's. */
    close(): void {
      changes.close();
      bodies.flush();
      backpressure.stop();
      eviction.stop();
      durable.stop();
      large.close();
    },
  };
}

function createCheckData(
  partition: Partition,
  deployment: Deployment | undefined,
  readSettings: () => Promise<void>,
) {
  const claimData = createClaimData(partition, deployment);
  return async () => {
    await claimData();
    await readSettings();
  };
}

/** How clients ask for a result: at once, while they wait, or as they watch the call. */
function openResults(
  partition: Partition,
  { postern, clock, log }: Required<Pick<IngressHost, "postern" | "clock" | "log">>,
) {
  const results = createResults(partition);
  const changes = createChanges(partition);
  const { secrets, waitMsMax, waitersMax, streams: limits } = toAskOptions(postern);
  return {
    results,
    changes,
    waits: createAwaitResults({ results, changes, waitersMax, clock, log }),
    streams: createCallStreams({ results, changes, limits, clock, log }),
    /** Secrets of the result tokens. */
    tokenSecrets: secrets,
    waitMsMax,
  };
}
