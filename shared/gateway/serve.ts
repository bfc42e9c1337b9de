import { toDeliverers } from "../config/deliverers.ts";
import type { PosternToml } from "../config/postern-toml.ts";
import { toResultLimits } from "../config/results-toml.ts";
import { listen } from "../http/listen.ts";
import { serveOps } from "../http/ops.ts";
import type { Shutdown } from "../lifecycle/run-service.ts";
import type { Fields, Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { delay, systemClock } from "../time/clock.ts";
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
 * Serves a gateway as its process: on its public address, and with probes and metrics on the private one. On shutdown it
 * drains for `drain_secs`, stops, lets requests end and closes. `fatal` rejects if its Redis cannot keep promises.
 */
export async function serveGateway(options: Options): Promise<{ fatal: Promise<void> }> {
  const { gateway, metrics, shutdown, log, postern, requestTimeoutMs, graceMs } = options;
  shutdown.defer("gateway", () => gateway.close());
  const takeDeliveries = postern.results.deliveries
    ? createTakeDeliveries({
        deliverers: toDeliverers(postern),
        writes: gateway.resultWrites,
        limits: toResultLimits(postern),
        clock: systemClock,
        log,
      })
    : refuseDeliveries;
  const { readiness } = gateway;
  const opsAddress = await serveOps(readiness, metrics, options.opsAddress, shutdown, takeDeliveries);
  const server = await listen(gateway.handler, options.bindAddress, {
    requestTimeoutMs,
    keepAliveMs: postern.http.keep_alive_secs * 1000,
    connectionsMax: postern.http.connections,
    log,
  });
  registerHttp(metrics, {
    bodyBytes: gateway.bodyBytes,
    connections: server.connections,
    waiting: gateway.waiting,
    streaming: gateway.streaming,
  });
  shutdown.defer("http server", () => server.close(graceMs));
  shutdown.defer("drain", async () => {
    gateway.drain();
    await delay(postern.drain_secs * 1000);
    gateway.stop();
  });
  log.info("service.started", { address: server.address, opsAddress, ...options.about });
  return { fatal: gateway.firstCheck };
}
