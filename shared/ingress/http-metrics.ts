import type { Meter } from "../platform/log/metered.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";

/**
 * Creates the HTTP meters of both gateways. They count requests that were refused to free the memory of their bodies,
 * closed connections, refused streams, and waits for results.
 */
export function createHttpMeters(metrics: Metrics): Record<string, Meter> {
  const cut = metrics.counter(
    "postern_http_bodies_cut_total",
    "Bodies of requests not yet verified, cut because http.body_budget_bytes was used up",
  );
  const closed = metrics.counter(
    "postern_http_connections_closed_total",
    "Connections closed because http.connections was reached",
  );
  const waited = metrics.counter(
    "postern_waits_total",
    "Clients that waited for a result, by ending (over_limit: no wait began)",
    ["ending"],
  );
  const refused = metrics.counter("postern_streams_refused_total", "Call streams refused, by limit", [
    "limit",
  ]);
  return {
    "wait.ended": ({ ending }) => waited.inc({ ending: String(ending) }),
    "wait.over_limit": ({ times }) => waited.inc({ ending: "over_limit" }, Number(times)),
    "stream.over_limit": ({ limit, times }) => refused.inc({ limit: String(limit) }, Number(times)),
    "http.bodies_cut": ({ times }) => cut.inc(Number(times)),
    "http.connections_closed": ({ times }) => closed.inc(Number(times)),
  };
}

/** Creates the histogram of the time that a gateway takes to write a call to disk in Redis. */
export function createAddDuration(metrics: Metrics) {
  return metrics.duration(
    "postern_queue_add_duration_seconds",
    "Time until Redis has confirmed that it holds a call",
  );
}

/** Registers gauges of the resources that a gateway's HTTP server uses. */
export function registerHttp(
  metrics: Metrics,
  {
    bodyBytes,
    connections,
    waiting,
    streaming,
  }: Readonly<Record<"bodyBytes" | "connections" | "waiting" | "streaming", () => number>>,
): void {
  const bytes = metrics.gauge("postern_http_body_bytes", "Size of the bodies in flight");
  const open = metrics.gauge("postern_http_connections", "Open connections of the public address");
  const waiters = metrics.gauge("postern_waiting_clients", "Clients that wait for a result");
  const streams = metrics.gauge("postern_streams", "Open call streams");
  metrics.beforeScrape(() => {
    waiters.set(waiting());
    streams.set(streaming());
    bytes.set(bodyBytes());
    open.set(connections());
  });
}
