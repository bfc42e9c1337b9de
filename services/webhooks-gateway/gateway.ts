import type { RequestListener } from "node:http";
import type { WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import type { Readiness } from "../../shared/http/ops.ts";
import { nothingHappens, type Reached } from "../../shared/lifecycle/crash-point.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createAccept } from "../../shared/queue/accept.ts";
import { Admission } from "../../shared/queue/admission.ts";
import { Backpressure, type Limits } from "../../shared/queue/backpressure.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { createDepth } from "../../shared/queue/depth.ts";
import { createAdd } from "../../shared/queue/enqueue.ts";
import { createUntilKnown } from "../../shared/queue/until-known.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable-redis.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { toEndpoints } from "./endpoints.ts";
import { createReceive } from "./receive.ts";
import { createHandler } from "./server.ts";

/** Checks a `webhooks.toml` table: `webhooksToml(env).parse(table)`. */
export { webhooksToml } from "../../shared/config/webhooks-toml.ts";

export type GatewayOptions = {
  webhooks: WebhooksToml;
  serviceId: number;
  metadataPrefix: string;
  /** The host's own connection; it must fail fast: no offline queue, no resending, a command timeout. */
  redis: Redis;
  durability: DurabilityMode;
  limits: Limits;
  /** How long a write to Redis is tried before its outcome counts as unknown. */
  enqueueTimeoutMs: number;
  log: Logger;
  clock?: Clock;
  reached?: Reached;
};

export type WebhooksGateway = {
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
  /** Ends the gateway's timers. Call it last, when nothing more can arrive. */
  close(): void;
};

/** The webhooks gateway, to be mounted in any process; it holds nothing that two replicas would have to agree on. */
export function createWebhooksGateway(options: GatewayOptions): WebhooksGateway {
  const { redis, log, clock = systemClock, reached = nothingHappens, limits } = options;
  const durable = new DurableRedis({ redis, mode: options.durability, log });
  const backpressure = new Backpressure({
    durable,
    readDepth: createDepth(redis, "webhook"),
    limits,
    clock,
    log,
  });
  const admission = new Admission({ durable, backpressure });
  const accept = createAccept({
    add: createAdd(redis, "webhook", log),
    records: createCallRecords(redis),
    untilKnown: createUntilKnown({ redis: durable, clock, deadlineMs: options.enqueueTimeoutMs }),
    clock,
    reached,
  });
  const receive = createReceive({ assertOpen: () => admission.assertOpen(), accept, clock, log, reached });
  return {
    handler: createHandler({ endpoints: toEndpoints(options.webhooks, options), receive, admission }),
    readiness: () => admission.readiness(),
    firstCheck: durable.firstCheck,
    pressure: () => backpressure.seen(),
    drain: () => admission.drain(),
    stop: () => admission.stop(),
    close() {
      backpressure.stop();
      durable.stop();
    },
  };
}
