import type { IncomingMessage, RequestListener } from "node:http";
import type { Metrics } from "../platform/metrics/metrics.ts";

/** Key on the request itself, as in authenticated.ts. */
const ROUTE = Symbol("route");

type RoutedRequest = IncomingMessage & { [ROUTE]?: string };

/** Notes the pattern of the path that answers this request. The path itself may hold anything, so it is no label. */
export function setRoute(req: RoutedRequest, route: string): void {
  req[ROUTE] = route;
}

/** In seconds, as OpenTelemetry advises for `http.server.request.duration`. */
const HTTP_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Node's parser accepts more, and each would be a series. */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]);

/**
 * Measures how long each request takes, by OpenTelemetry's stable conventions for HTTP. A request has no route if its path has none, also for its
 * method, and no status if its client left before the answer.
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
