import express, { type Express, Router } from "express";
import { AppError } from "../errors/app-error.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { COMMON_HEADERS, sendProblem } from "./problem.ts";

/** Whether work can be taken now; `checks` says of each part what was found. */
export type Readiness = { ready: boolean; checks: Readonly<Record<string, unknown>> };

type Deps = { readiness: () => Readiness };

/**
 * GET /livez: the process turns its event loop, and nothing else. GET /readyz: 200 or 503, with the checks as JSON.
 */
export function probes({ readiness }: Deps): Router {
  const router = Router({ caseSensitive: true, strict: true });
  router.get("/livez", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  router.get("/readyz", (_req, res) => {
    const { ready, checks } = readiness();
    res.status(ready ? 200 : 503).json({ status: ready ? "ready" : "not ready", ...checks });
  });
  return router;
}

/** The private address of a process: the probes, and GET /metrics in Prometheus' text format. */
export function createOpsApp({ readiness, metrics }: Deps & { metrics: Metrics }): Express {
  const app = bareApp();
  app.use(probes({ readiness }));
  app.get("/metrics", async (_req, res) => {
    res.type(metrics.contentType).send(await metrics.text());
  });
  return app.use(nothingHere());
}

/** An Express app without its tolerance: exact paths, no advertising, no ETags, nothing cached. */
export function bareApp(): Express {
  const app = express();
  app
    .set("case sensitive routing", true)
    .set("strict routing", true)
    .set("x-powered-by", false)
    .set("etag", false);
  app.use((_req, res, next) => {
    res.set(COMMON_HEADERS);
    next();
  });
  return app;
}

/** The last route: 404 as a problem document. */
export function nothingHere(): Router {
  return Router().use((req, res) => {
    const error = new AppError("request.not_found", { reason: `nothing at ${req.path}` });
    sendProblem(req, res, { error });
  });
}
