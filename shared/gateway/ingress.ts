import type { RequestListener } from "node:http";
import type { Readiness } from "../http/ops.ts";
import type { Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import { createAdd } from "../queue/enqueue.ts";
import { createDepth } from "../queue/status.ts";
import type { Redis } from "../redis/connect.ts";
import type { DurabilityMode } from "../redis/durable.ts";
import { DurableRedis } from "../redis/durable.ts";
import { type Clock, systemClock } from "../time/clock.ts";
import { Admission } from "./admission.ts";
import { Backpressure, type Limits } from "./backpressure.ts";
import { createBeginWrite } from "./retry-write.ts";

export type IngressOptions = {
  /** The host's own connection; it must fail fast: no offline queue, no resending, a command timeout. */
  redis: Redis;
  durability: DurabilityMode;
  limits: Limits;
  /** How long a write to Redis is tried before its outcome counts as unknown. */
  enqueueTimeoutMs: number;
  log: Logger;
  clock?: Clock;
};

/** What a host has in hand of a gateway of either kind. */
export type Gateway = {
  /** For `http.createServer`, its `checkContinue` event, or as a middleware's last word. */
  handler: RequestListener;
  readiness(): Readiness;
  /** Rejects when the first Redis reached cannot keep what a 202 promises. */
  firstCheck: Promise<void>;
  pressure(): ReturnType<Backpressure["seen"]>;
  /** From now on: not ready, and every answer ends its connection; what arrives is still taken. */
  drain(): void;
  /** From now on what still arrives is refused with `service.draining`; what was begun is finished. */
  stop(): void;
};

/** The side of a gateway that faces the queue: whether calls can be taken now, and how one is added. */
export function openIngress(origin: Origin, options: IngressOptions) {
  const { redis, limits, log, clock = systemClock } = options;
  const durable = new DurableRedis({ redis, mode: options.durability, log });
  const readDepth = createDepth(redis, origin);
  const backpressure = new Backpressure({ durable, readDepth, limits, clock, log });
  const admission = new Admission({ durable, backpressure });
  return {
    redis,
    clock,
    log,
    admission,
    add: createAdd(redis, origin, log),
    beginWrite: createBeginWrite({ redis: durable, clock, deadlineMs: options.enqueueTimeoutMs }),
    /** What of a gateway is the same for both kinds. */
    handle: {
      firstCheck: durable.firstCheck,
      pressure: () => backpressure.seen(),
      drain: () => admission.drain(),
      stop: () => admission.stop(),
    } satisfies Partial<Gateway>,
    /** Ends the timers. */
    close(): void {
      backpressure.stop();
      durable.stop();
    },
  };
}
