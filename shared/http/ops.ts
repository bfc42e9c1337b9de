import type { RequestListener } from "node:http";
import express, { type Express, type IRouter, type RequestHandler, Router } from "express";
import { AppError, toAppError } from "../errors/app-error.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { COMMON_HEADERS, sendProblem } from "./problem.ts";
import { rawPath } from "./raw-path.ts";

/** Whether work can be taken now; `checks` says of each part what was found. */
export type Readiness = { ready: boolean; checks: Readonly<Record<string, unknown>> };

type Deps = { readiness: () => Readiness };

/**
 * GET /livez: the process turns its event loop, and nothing else. GET /readyz: 200 or 503, with the checks as JSON.
 */
export function probes({ readiness }: Deps): Router {
  const router = Router({ caseSensitive: true, strict: true });
  onlyGet(router, "/livez", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  onlyGet(router, "/readyz", (_req, res) => {
    const { ready, checks } = readiness();
    res.status(ready ? 200 : 503).json({ status: ready ? "ready" : "not ready", ...checks });
  });
  return router;
}

/** The private address of a process: the probes, and GET /metrics in Prometheus' text format. */
export function createOpsApp({ readiness, metrics }: Deps & { metrics: Metrics }): RequestListener {
  const app = bareApp();
  app.use(probes({ readiness }));
  onlyGet(app, "/metrics", async (_req, res) => {
    res.type(metrics.contentType).send(await metrics.text());
  });
  return serve(app);
}

/** An Express app without its tolerance: exact paths, no advertising, no ETags, nothing cached. */
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

/** GET and HEAD of a path; 405 for all else, OPTIONS too, which Express would answer by itself. */
export function onlyGet(router: IRouter, path: string, handler: RequestHandler): void {
  router
    .route(path)
    .get(handler)
    .all((req, res) => {
      const reason = `${req.method} ${path}`;
      const error = new AppError("request.method_not_allowed", { reason, publicDetail: "use GET" });
      sendProblem(req, res, { error, extra: { headers: { Allow: "GET, HEAD" } } });
    });
}

/**
 * Serves an app, with a problem document for what it does not answer and for what fails in it. Express itself would
 * answer with a page, even past an app's own error handler, where the request's target is no URL.
 */
export function serve(app: Express): RequestListener {
  return (req, res) => {
    const last = (thrown?: unknown): void => {
      const error = thrown === undefined ? nothingAt(req.url) : toAppError(thrown);
      sendProblem(req, res, { error });
    };
    // Express' own types give an app no third argument, though its router calls it as its last word.
    (app as unknown as (...args: [...Parameters<RequestListener>, typeof last]) => void)(req, res, last);
  };
}

function nothingAt(target: string | undefined): AppError {
  return new AppError("request.not_found", { reason: `nothing at ${target}` });
}
