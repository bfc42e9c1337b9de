import { toDeliverers } from "../config/deliverers.ts";
import { toResultLimits } from "../config/results-toml.ts";
import { type Listening, listen } from "../http/listen.ts";
import { type ProcessHost, serveWhenReady } from "../part/serve.ts";
import type { Fields } from "../platform/log/logger.ts";
import { redisClock } from "../redis/clock.ts";
import { deliveryRoutes, REFUSED_DELIVERIES } from "./deliveries.ts";
import { registerHttp } from "./http-metrics.ts";
import type { Gateway } from "./ingress.ts";

/** Serves a gateway as its process. Its private address takes what runners deliver. */
export function serveGateway(
  gateway: Gateway,
  host: ProcessHost,
  { bindAddress, about }: { bindAddress: string; about: Fields },
): Promise<{ fatal: Promise<void> }> {
  const { postern, metrics, log } = host;
  const deliveries = postern.results.deliveries
    ? deliveryRoutes({
        deliverers: toDeliverers(postern),
        writes: gateway.resultWrites,
        limits: toResultLimits(postern, host.partitions.all.length),
        clock: redisClock(host.partitions.control.redis).now,
        log,
      })
    : REFUSED_DELIVERIES;
  let server: Listening | undefined;
  registerHttp(metrics, {
    bodyBytes: gateway.bodyBytes,
    connections: () => server?.connections() ?? 0,
    waiting: gateway.waiting,
    streaming: gateway.streaming,
  });

  async function open() {
    server = await listen(gateway.handler, bindAddress, { ...gateway.http, log });
    return { ...server, about: { address: server.address, ...about } };
  }
  return serveWhenReady(gateway, host, open, deliveries);
}
