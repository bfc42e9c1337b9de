import type { IncomingMessage, RequestListener } from "node:http";
import express, { type Express, type IRouter, type RequestHandler, Router } from "express";
import { AppError, toAppError } from "../platform/errors/app-error.ts";
import type { Shutdown } from "../platform/lifecycle/run-service.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import { withoutTokens } from "../platform/text/without-tokens.ts";
import { rawPath } from "./headers.ts";
import { listen } from "./listen.ts";
import { COMMON_HEADERS, sendProblem } from "./problem.ts";
import type { Readiness } from "./readiness.ts";

/** Serves the requests that it knows, and passes on the others. */
export type OpsRoutes = RequestHandler;

/**
 * GET /livez: 200 while the event loop turns. GET /readyz: 200 or 503, with the checks as JSON. GET `health`: the same status, without
 * the checks.
 */
export function probes(readiness: () => Readiness, health?: string): Router {
  const router = Router({ caseSensitive: true, strict: true });
  onlyGet(router, "/livez", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  onlyGet(router, "/readyz", (_req, res) => {
    const { ready, checks } = readiness();
    res.status(ready ? 200 : 503).json({ status: ready ? "ready" : "not ready", ...checks });
  });
  if (health !== undefined)
    onlyGet(router, health, (_req, res) => {
      const { ready } = readiness();
      res
        .status(ready ? 200 : 503)
        .type("text/plain")
        .send(ready ? "ok" : "not ready");
    });
  return router;
}

/**
 * Serves a process's probes and metrics on its private address, until shutdown, and what `more` does not pass on. Resolves with the
 * address as bound.
 */
export async function serveOps(
  readiness: () => Readiness,
  metrics: Metrics,
  address: string,
  shutdown: Shutdown,
  more?: OpsRoutes,
): Promise<string> {
  const server = await listen(createOpsApp(readiness, metrics, more), address);
  shutdown.defer("ops server", () => server.close(0));
  return server.address;
}

/** The private address of a process: the probes, and GET /metrics in Prometheus' text format. */
function createOpsApp(readiness: () => Readiness, metrics: Metrics, more?: OpsRoutes): RequestListener {
  const app = bareApp();
  if (more !== undefined) app.use(more);
  app.use(probes(readiness));
  onlyGet(app, "/metrics", async (_req, res) => {
    res.type(metrics.contentType).send(await metrics.text());
  });
  return serve(app);
}

/** An Express app with exact paths only, and without caching, ETags and the X-Powered-By header. */
export function bareApp(): Express {
  const app = express();
  app
    .set("case sensitive routing", true)
    .set("strict routing", true)
    .set("x-powered-by", false)
    .set("etag", false);
  app.use((req, res, next) => {
    res.set(COMMON_HEADERS);
    next(req.path === rawPath(req.url) ? undefined : nothingAt(req.url));
  });
  return app;
}

/** Routes GET and HEAD of a path, and answers 405 to every other method, also to OPTIONS, which Express answers itself. */
export function onlyGet(router: IRouter, path: string, handler: RequestHandler): void {
  router
    .route(path)
    .get(handler)
    .all((req, res) => {
      const reason = `${req.method} ${path}`;
      const error = new AppError("request.method_not_allowed", { reason, publicDetail: "use GET" });
      sendProblem(req, res, error, { headers: { Allow: "GET, HEAD" } });
    });
}

/**
 * Serves an app, with a problem document for a path it does not know and for an error it throws. Express would answer with
 * a page, and bypass the app's own error handler if the request's target is no URL. `onNotFound` sees the requests to such
 * paths, before they are answered.
 */
export function serve(app: Express, onNotFound?: (req: IncomingMessage) => void): RequestListener {
  return (req, res) => {
    const last = (thrown?: unknown): void => {
      const error = thrown === undefined ? nothingAt(req.url) : toAppError(thrown);
      if (error.code === "request.not_found") onNotFound?.(req);
      sendProblem(req, res, error);
    };
    // Express' types lack the third argument, which its router calls when nothing else has answered.
    (app as unknown as (...args: [...Parameters<RequestListener>, typeof last]) => void)(req, res, last);
  };
}

function nothingAt(target: string | undefined): AppError {
  return new AppError("request.not_found", {
    reason: `no such path: ${withoutTokens(rawPath(target ?? ""))}`,
  });
}
