import type { IncomingMessage, ServerResponse } from "node:http";
import { type Tracer, tracer } from "../platform/traces/tracer.ts";
import { rawPath, traceparentOf } from "./headers.ts";

/** Runs the work of a request in a server span, which ends with the answer. `route` is the pattern of its path. */
export function inServerSpan<Result>(
  { req, res }: { req: IncomingMessage; res: ServerResponse },
  route: string,
  work: () => Result,
): Result {
  return tracer === undefined ? work() : traced(tracer, { req, res, route }, work);
}

type Exchange = { req: IncomingMessage; res: ServerResponse; route: string };

function traced<Result>(on: Tracer, { req, res, route }: Exchange, work: () => Result): Result {
  const span = on.start({
    kind: "server",
    name: `${req.method} ${route}`,
    parent: traceparentOf(req),
    attributes: {
      "http.request.method": req.method,
      "http.route": route,
      "url.path": rawPath(req.url ?? ""),
      "url.scheme": "http",
      "server.address": hostOf(req),
      "network.protocol.version": req.httpVersion,
    },
  });
  res.once("close", () => {
    if (res.headersSent) span.set({ "http.response.status_code": res.statusCode });
    if (res.statusCode >= 500) span.fail(String(res.statusCode));
    else if (!res.writableFinished) span.fail("disconnected");
    span.end();
  });
  return on.run(span, work);
}

/** Returns the name in Host, without its port. Undefined if the header has any other text. */
function hostOf({ headers: { host = "" } }: IncomingMessage): string | undefined {
  return /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d+)?$/i.exec(host)?.[1];
}
