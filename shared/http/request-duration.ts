import type { IncomingMessage, RequestListener } from "node:http";
import type { Metrics } from "../platform/metrics/metrics.ts";

/** Key of a property that is set on the request. A WeakMap would be slower (authenticated.ts). */
const ROUTE = Symbol("route");

type RoutedRequest = IncomingMessage & { [ROUTE]?: string };

/**
 * Stores the path pattern of the route that answers this request, as a label of the metric. The path itself is no
 * label, because clients choose it: each new path would add a time series.
 */
export function setRoute(req: RoutedRequest, route: string): void {
  req[ROUTE] = route;
}

/** Buckets in seconds that OpenTelemetry recommends for `http.server.request.duration`. */
const HTTP_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/**
 * Methods with their own label value. Node's parser accepts more methods, and a client could add a time series with
 * each.
 */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]);

/**
 * Measures the duration of each request, by OpenTelemetry's stable conventions for HTTP. The route is empty if no route
 * matches path and method. The status is empty if the client left before the answer.
 */
export function measuringRequests(metrics: Metrics, handler: RequestListener): RequestListener {
  const duration = metrics.duration(
    "http_server_request_duration_seconds",
    "Time from a request's headers to the end of its answer",
    ["http_request_method", "http_response_status_code", "http_route"],
    HTTP_BUCKETS,
  );
  return (req: RoutedRequest, res) => {
    const startedAt = performance.now();
    res.on("close", () => {
      const { statusCode, headersSent } = res;
      const { method = "" } = req;
      const labels = {
        http_request_method: METHODS.has(method) ? method : "_OTHER",
        http_response_status_code: headersSent ? String(statusCode) : "",
        http_route: (statusCode === 405 ? undefined : req[ROUTE]) ?? "",
      };
      duration.observeMs(labels, performance.now() - startedAt);
    });
    handler(req, res);
  };
}
