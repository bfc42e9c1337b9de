import type { RequestListener } from "node:http";
import type { Readiness } from "../http/readiness.ts";
import type { Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import { createDepth } from "../queue/depth.ts";
import { createAdd } from "../queue/enqueue.ts";
import type { Redis } from "../redis/connect.ts";
import { DurableRedis } from "../redis/durable-redis.ts";
import { createBeginWrite } from "../redis/retry-write.ts";
import type { DurabilityMode } from "../redis/server-state.ts";
import { type Clock, systemClock } from "../time/clock.ts";
import { Admission } from "./admission.ts";
import { Backpressure, type Limits, type Pressure } from "./backpressure.ts";

export type IngressOptions = {
  /** The host's own connection. It must fail fast: no offline queue, no resending, a command timeout. */
  redis: Redis;
  durability: DurabilityMode;
  limits: Limits;
  /** How long a write to Redis is tried before its outcome counts as unknown. */
  enqueueTimeoutMs: number;
  log: Logger;
  clock?: Clock;
};

/** A gateway of either kind, as its host holds it. */
export type Gateway = {
  /** For `http.createServer` and its `checkContinue` event, or as the last middleware of a host's own app. */
  handler: RequestListener;
  readiness(): Readiness;
  /** Rejects if the first Redis reached cannot keep what a 202 promises. */
  firstCheck: Promise<void>;
  pressure(): Pressure | undefined;
  /** From now on it is not ready, and every answer ends its connection; requests are still taken. */
  drain(): void;
  /** From now on it refuses requests with `service.draining`; those under way are finished. */
  stop(): void;
};

/** The side of a gateway that faces the queue: whether calls can be taken now, and how one is added. */
export function openIngress(origin: Origin, options: IngressOptions) {
  const { redis, durability, limits, enqueueTimeoutMs, log, clock = systemClock } = options;
  const durable = new DurableRedis({ redis, mode: durability, log });
  const readDepth = createDepth(redis, origin);
  const backpressure = new Backpressure({ durable, readDepth, limits, clock, log });
  return {
    admission: new Admission(durable, backpressure),
    add: createAdd(redis, origin, log),
    beginWrite: createBeginWrite({ redis: durable, clock, deadlineMs: enqueueTimeoutMs }),
    firstCheck: durable.firstCheck,
    pressure: () => backpressure.seen(),
    /** Ends the timers. */
    close(): void {
      backpressure.stop();
      durable.stop();
    },
  };
}
