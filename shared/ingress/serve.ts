import { toDeliverers } from "../config/deliverers.ts";
import { toResultLimits } from "../config/results-toml.ts";
import { type Listening, listen } from "../http/listen.ts";
import { measuringRequests } from "../http/request-duration.ts";
import { type Generations, handlerOf } from "../part/generations.ts";
import type { CallsHost } from "../part/host.ts";
import { closeAfterRequests } from "../part/part.ts";
import { type ProcessHost, serveWhenReady } from "../part/serve.ts";
import type { Fields } from "../platform/log/logger.ts";
import { redisClock } from "../redis/clock.ts";
import { DISABLED_DELIVERY_ROUTES, deliveryRoutes } from "./deliveries.ts";
import { registerHttp } from "./http-metrics.ts";
import type { Gateway } from "./ingress.ts";

/**
 * Adds the routes by which runners deliver results to a gateway's private address, where probes and metrics are served.
 */
export function withDeliveryRoutes<Own extends Gateway>(
  gateway: Own,
  { postern, partitions, log }: CallsHost,
): Own {
  const opsRoutes = postern.results.deliveries
    ? deliveryRoutes({
        deliverers: toDeliverers(postern),
        writes: gateway.resultWrites,
        limits: toResultLimits(postern, partitions.all.length),
        clock: redisClock(partitions.control.redis).now,
        log,
      })
    : DISABLED_DELIVERY_ROUTES;
  return closeAfterRequests({ ...gateway, opsRoutes });
}

/** Serves a gateway in its own process. */
export function serveGateway(
  generations: Generations<Gateway>,
  host: ProcessHost,
  { bindAddress, about }: { bindAddress: string; about: Fields },
): Promise<{ fatal: Promise<void> }> {
  const { metrics, log } = host;
  const handler = measuringRequests(metrics, handlerOf(generations));
  let server: Listening | undefined;
  registerHttp(metrics, {
    bodyBytes: () => generations.current.bodyBytes(),
    connections: () => server?.connections() ?? 0,
    waiting: () => generations.current.waiting(),
    streaming: () => generations.current.streaming(),
  });

  async function open() {
    const { http } = generations.current;
    server = await listen(handler, bindAddress, { ...http, log });
    return { ...server, about: { address: server.address, ...about } };
  }
  return serveWhenReady(generations, host, open);
}
