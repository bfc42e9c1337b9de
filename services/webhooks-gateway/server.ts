import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { bareApp, nothingHere, probes } from "../../shared/http/ops.ts";
import type { Admission } from "./admission.ts";
import type { Endpoint } from "./endpoints.ts";

type Deps = {
  endpoints: ReadonlyMap<string, Endpoint>;
  receive: (req: IncomingMessage, res: ServerResponse, endpoint: Endpoint) => Promise<void>;
  admission: Admission;
};

/**
 * Configured paths are looked up as they came: no decoding, no case folding, no trailing slash, the query ignored. They
 * pass Express by, which alone costs more than all the rest of a webhook; everything else is Express'.
 */
export function createHandler({ endpoints, receive, admission }: Deps): RequestListener {
  const app = bareApp();
  app.get("/webhooks/health", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  app.use(probes({ readiness: () => admission.readiness() }));
  app.use(nothingHere());

  return (req, res) => {
    if (admission.draining) res.setHeader("Connection", "close");
    const endpoint = endpoints.get(pathOf(req.url ?? ""));
    if (endpoint === undefined) app(req, res);
    else void receive(req, res, endpoint);
  };
}

function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
