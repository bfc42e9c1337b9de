import type { Meter } from "../log/metered.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** What gives way at the limits of a gateway's HTTP, which both gateways count. */
export function createHttpMeters(metrics: Metrics): Record<string, Meter> {
  const cut = metrics.counter("postern_http_bodies_cut_total", "Unproven bodies cut at the budget");
  const closed = metrics.counter(
    "postern_http_connections_closed_total",
    "Connections closed at their limit, for new ones",
  );
  const waited = metrics.counter(
    "postern_waits_total",
    "Waits for the result of a call, by how they ended; over_limit: none began",
    ["ending"],
  );
  const refused = metrics.counter(
    "postern_streams_refused_total",
    "Streams that would have watched a call, by the limit that was reached",
    ["limit"],
  );
  return {
    "wait.ended": ({ ending }) => waited.inc({ ending: String(ending) }),
    "wait.over_limit": ({ times }) => waited.inc({ ending: "over_limit" }, Number(times)),
    "stream.over_limit": ({ limit, times }) => refused.inc({ limit: String(limit) }, Number(times)),
    "http.bodies_cut": ({ times }) => cut.inc(Number(times)),
    "http.connections_closed": ({ times }) => closed.inc(Number(times)),
  };
}

/** Gauges of what a gateway's HTTP takes now. */
export function registerHttp(
  metrics: Metrics,
  {
    bodyBytes,
    connections,
    waiting,
    streaming,
  }: Readonly<Record<"bodyBytes" | "connections" | "waiting" | "streaming", () => number>>,
): void {
  const bytes = metrics.gauge("postern_http_body_bytes", "What the bodies in flight take of their budget");
  const open = metrics.gauge("postern_http_connections", "Open connections of the public address");
  const waiters = metrics.gauge("postern_waiting_clients", "Clients that wait for the result of their call");
  const streams = metrics.gauge("postern_streams", "Streams that watch calls");
  metrics.beforeScrape(() => {
    waiters.set(waiting());
    streams.set(streaming());
    bytes.set(bodyBytes());
    open.set(connections());
  });
}
