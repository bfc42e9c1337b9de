import type { IncomingMessage, RequestListener } from "node:http";
import express, { type Express, type RequestHandler } from "express";
import { toAppError } from "../platform/errors/app-error.ts";
import type { Shutdown } from "../platform/lifecycle/run-service.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import { COMMON_HEADERS, sendBody } from "./answer.ts";
import { rawPath } from "./headers.ts";
import { listen } from "./listen.ts";
import { sendProblem } from "./problem.ts";
import type { Readiness } from "./readiness.ts";
import { methodNotAllowed, nothingAt, type Route, serveRoutes } from "./router.ts";

type Probes = {
  /** Path of a third probe. It answers with the status of /readyz, but without the checks. */
  health?: string;
  /** Called for requests to other paths, before they are answered. */
  onNotFound?: (req: IncomingMessage) => void;
};

/**
 * Serves two probes: GET /livez answers 200 while the event loop runs, and GET /readyz answers 200 or 503, with the
 * checks as JSON. Requests to other paths get 404.
 */
export function serveProbes(
  readiness: () => Readiness,
  { health, onNotFound }: Probes = {},
): RequestListener {
  const app = bareApp();
  onlyGet(app, "/livez", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  onlyGet(app, "/readyz", (_req, res) => {
    const { ready, checks } = readiness();
    res.status(ready ? 200 : 503).json({ status: ready ? "ready" : "not ready", ...checks });
  });
  if (health !== undefined)
    onlyGet(app, health, (_req, res) => {
      const { ready } = readiness();
      res
        .status(ready ? 200 : 503)
        .type("text/plain")
        .send(ready ? "ok" : "not ready");
    });
  return serve(app, onNotFound);
}

/**
 * Serves a process's private address until shutdown. There it serves the probes, GET /metrics in Prometheus' text
 * format, and the routes that `more` returns at the time of each request. Resolves with the bound address.
 */
export async function serveOps(
  readiness: () => Readiness,
  metrics: Metrics,
  address: string,
  shutdown: Shutdown,
  more: () => readonly Route[] = () => [],
): Promise<string> {
  const showMetrics: Route = {
    method: "GET",
    path: "/metrics",
    serve: async (_req, res) => sendBody(res, metrics.contentType, await metrics.text()),
  };
  const otherwise = serveProbes(readiness);
  let own: { routes: readonly Route[]; handler: RequestListener } | undefined;
  const handler: RequestListener = (req, res) => {
    const routes = more();
    if (own?.routes !== routes)
      own = { routes, handler: serveRoutes([...routes, showMetrics], { otherwise }) };
    own.handler(req, res);
  };
  const server = await listen(handler, address);
  shutdown.defer("ops server", () => server.close(0));
  return server.address;
}

/**
 * Creates an Express app that matches paths exactly, and sends no ETag and no X-Powered-By header. All its answers have
 * `COMMON_HEADERS`, which forbid caching.
 */
export function bareApp(): Express {
  const app = express();
  app
    .set("case sensitive routing", true)
    .set("strict routing", true)
    .set("x-powered-by", false)
    .set("etag", false);
  app.use((req, res, next) => {
    res.set(COMMON_HEADERS);
    next(req.path === rawPath(req.url) ? undefined : nothingAt(req));
  });
  return app;
}

/**
 * Serves GET and HEAD of a path, and answers 405 to every other method. This includes OPTIONS, which Express would
 * answer itself.
 */
function onlyGet(app: Express, path: string, handler: RequestHandler): void {
  app
    .route(path)
    .get(handler)
    .all((req, res) => {
      throw methodNotAllowed(req, res, ["GET", "HEAD"]);
    });
}

/**
 * Serves an app. Unknown paths and thrown errors get a problem document. Express would send a page, and would bypass
 * the app's own error handler if the request's target is not a URL. `onNotFound` is called for requests to unknown
 * paths, before they are answered.
 */
export function serve(app: Express, onNotFound?: (req: IncomingMessage) => void): RequestListener {
  return (req, res) => {
    const last = (thrown?: unknown): void => {
      const error = thrown === undefined ? nothingAt(req) : toAppError(thrown);
      if (error.code === "request.not_found") onNotFound?.(req);
      sendProblem(req, res, error);
    };
    // Express' types lack the third argument, which its router calls if no route answers.
    (app as unknown as (...args: [...Parameters<RequestListener>, typeof last]) => void)(req, res, last);
  };
}
