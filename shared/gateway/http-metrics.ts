import type { Meter } from "../log/metered.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** What gives way at the limits of a gateway's HTTP, which both gateways count. */
export function createHttpMeters(metrics: Metrics): Record<string, Meter> {
  const cut = metrics.counter("postern_http_bodies_cut_total", "Unproven bodies cut at the budget");
  const closed = metrics.counter(
    "postern_http_connections_closed_total",
    "Connections closed at their limit, for new ones",
  );
  return {
    "http.bodies_cut": ({ times }) => cut.inc(Number(times)),
    "http.connections_closed": ({ times }) => closed.inc(Number(times)),
  };
}

/** Gauges of what a gateway's HTTP takes now. */
export function registerHttp(
  metrics: Metrics,
  { bodyBytes, connections }: { bodyBytes: () => number; connections: () => number },
): void {
  const bytes = metrics.gauge("postern_http_body_bytes", "What the bodies in flight take of their budget");
  const open = metrics.gauge("postern_http_connections", "Open connections of the public address");
  metrics.beforeScrape(() => {
    bytes.set(bodyBytes());
    open.set(connections());
  });
}
