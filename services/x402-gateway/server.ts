import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { bareApp, onlyGet, probes, type Readiness, serve } from "../../shared/http/ops.ts";
import { rawPath } from "../../shared/http/raw-path.ts";
import type { JobIds } from "../../shared/job-call/job-ids.ts";
import { CORS_HEADERS } from "./cors.ts";
import { hasPayment } from "./payment/header.ts";
import { parseRoute, type Route } from "./route.ts";
import type { AskForPayment } from "./routes/ask-for-payment.ts";

type Arrival = { req: IncomingMessage; res: ServerResponse };

type Deps = {
  askForPayment: AskForPayment;
  payJob: (req: IncomingMessage, res: ServerResponse, ids: JobIds) => Promise<void>;
  dryRun: (arrival: Arrival & { ids: JobIds }) => Promise<void>;
  price: (res: ServerResponse, ids: JobIds) => void;
  callState: (res: ServerResponse, callId: string) => Promise<void>;
  preflight: (res: ServerResponse) => void;
  /** Answers what one of these threw. */
  refuse: (arrival: Arrival & { ids: JobIds | undefined }, error: AppError) => void;
  readiness: () => Readiness;
  /** Whether every answer is to be the last of its connection. */
  isEnding: () => boolean;
};

/** A page that buys is to read its mistakes too: a 404, a 405. */
const READABLE_BY_PAGES = new Map(Object.entries(CORS_HEADERS));

/** Paths of jobs and calls are matched as they came, before Express; everything else is Express'. */
export function createHandler(deps: Deps): RequestListener {
  const app = bareApp();
  onlyGet(app, "/x402/health", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  app.use(probes(deps));
  const others = serve(app);

  return (req, res) => {
    if (deps.isEnding()) res.setHeader("Connection", "close");
    const route = parseRoute(rawPath(req.url ?? ""));
    if (route === undefined) {
      res.setHeaders(READABLE_BY_PAGES);
      others(req, res);
    } else if (isUnpaid(req, route)) tellPrice(deps, { req, res }, route);
    else void answer(deps, { req, res }, route);
  };
}

/** Most requests of a shop are this one; it needs nothing that has to be waited for. */
function isUnpaid(req: IncomingMessage, route: Route): route is Route & JobIds {
  return route.kind === "job" && req.method === "POST" && !hasPayment(req);
}

function tellPrice(deps: Deps, { req, res }: Arrival, ids: JobIds): void {
  try {
    deps.askForPayment(req, res, ids);
  } catch (thrown) {
    deps.refuse({ req, res, ids }, toAppError(thrown));
  }
}

async function answer(deps: Deps, arrival: Arrival, route: Route): Promise<void> {
  const { req, res } = arrival;
  const ids = route.kind === "call" ? undefined : route;
  try {
    if (req.method === "OPTIONS") return deps.preflight(res);
    assertMethod(arrival, route);
    switch (route.kind) {
      case "job":
        return await deps.payJob(req, res, route);
      case "dry_run":
        return await deps.dryRun({ ...arrival, ids: route });
      case "price":
        return deps.price(res, route);
      case "call":
        return await deps.callState(res, route.callId);
    }
  } catch (thrown) {
    deps.refuse({ ...arrival, ids }, toAppError(thrown));
  }
}

function assertMethod({ req: { method }, res }: Arrival, { kind }: Route): void {
  const wanted = kind === "job" || kind === "dry_run" ? "POST" : "GET";
  if (method === wanted || (wanted === "GET" && method === "HEAD")) return;
  res.setHeader("Allow", wanted === "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
  throw new AppError("request.method_not_allowed", { reason: `${method}`, publicDetail: `use ${wanted}` });
}
