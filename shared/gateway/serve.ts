import { toDeliverers } from "../config/deliverers.ts";
import type { PosternToml } from "../config/postern-toml.ts";
import { toResultLimits } from "../config/results-toml.ts";
import { type Listening, listen } from "../http/listen.ts";
import { serveOps } from "../http/ops.ts";
import { serveWhenReady } from "../http/serve-when-ready.ts";
import type { Shutdown } from "../lifecycle/run-service.ts";
import type { Fields, Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { redisClock, registerClock } from "../redis/clock.ts";
import { createTakeDeliveries, refuseDeliveries } from "./deliveries.ts";
import { registerHttp } from "./http-metrics.ts";
import type { Gateway } from "./ingress.ts";

type Options = {
  gateway: Gateway & { close(): void | Promise<void> };
  metrics: Metrics;
  shutdown: Shutdown;
  log: Logger;
  postern: PosternToml;
  bindAddress: string;
  /** Of the probes and metrics. */
  opsAddress: string;
  requestTimeoutMs: number;
  /** How long requests under way have to end, once no more are taken. */
  graceMs: number;
  /** What `service.started` says beside the addresses. */
  about: Fields;
};

/**
 * Serves a gateway as its process: probes and metrics on the private address at once, the public one once the gateway is ready.
 * `fatal` rejects if its Redis cannot keep promises, or if it cannot listen.
 */
export async function serveGateway(options: Options): Promise<{ fatal: Promise<void> }> {
  const { gateway, metrics, shutdown, log, postern, bindAddress, requestTimeoutMs, graceMs } = options;
  const { redis } = gateway.resultWrites.small;
  shutdown.defer("gateway", () => gateway.close());
  const takeDeliveries = postern.results.deliveries
    ? createTakeDeliveries({
        deliverers: toDeliverers(postern),
        writes: gateway.resultWrites,
        limits: toResultLimits(postern),
        clock: redisClock(redis).now,
        log,
      })
    : refuseDeliveries;
  registerClock(metrics, redis);
  let server: Listening | undefined;
  registerHttp(metrics, {
    bodyBytes: gateway.bodyBytes,
    connections: () => server?.connections() ?? 0,
    waiting: gateway.waiting,
    streaming: gateway.streaming,
  });
  const { readiness, drain, firstCheck: ready } = gateway;
  const opsAddress = await serveOps(readiness, metrics, options.opsAddress, shutdown, takeDeliveries);
  log.info("service.starting", { opsAddress });

  async function open(): Promise<Listening> {
    server = await listen(gateway.handler, bindAddress, {
      requestTimeoutMs,
      keepAliveMs: postern.http.keep_alive_secs * 1000,
      connectionsMax: postern.http.connections,
      log,
    });
    log.info("service.started", { address: server.address, opsAddress, ...options.about });
    return server;
  }

  const drainMs = postern.drain_secs * 1000;
  return { fatal: serveWhenReady({ ready, open, drain, drainMs, graceMs, shutdown }) };
}
