import { listen } from "../http/listen.ts";
import { createOpsApp } from "../http/ops.ts";
import type { Shutdown } from "../lifecycle/shutdown.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { delay } from "../time/clock.ts";
import type { Gateway } from "./ingress.ts";

type Options = {
  gateway: Gateway;
  metrics: Metrics;
  shutdown: Shutdown;
  bindAddress: string;
  opsAddress: string;
  requestTimeoutMs: number;
  /** How long requests in flight have to end, once nothing more is taken. */
  graceMs: number;
  /** How long it serves on, not ready, before it stops. */
  drainMs: number;
};

/** Serves a gateway and, on the private address, its probes and metrics; ends as a load balancer wants it to. */
export async function serveGateway(options: Options): Promise<{ address: string; opsAddress: string }> {
  const { gateway, metrics, shutdown, bindAddress, requestTimeoutMs, graceMs, drainMs } = options;
  const ops = await listen(createOpsApp({ readiness: gateway.readiness, metrics }), options.opsAddress);
  shutdown.defer("ops server", () => ops.close(0));
  const server = await listen(gateway.handler, bindAddress, { requestTimeoutMs });
  shutdown.defer("http server", () => server.close(graceMs));
  shutdown.defer("drain", async () => {
    gateway.drain();
    await delay(drainMs);
    gateway.stop();
  });
  return { address: server.address, opsAddress: ops.address };
}
