import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Admission } from "../../shared/gateway/admission.ts";
import { bareApp, onlyGet, probes, serve } from "../../shared/http/ops.ts";
import { rawPath } from "../../shared/http/raw-path.ts";
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
  onlyGet(app, "/webhooks/health", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  app.use(probes({ readiness: () => admission.readiness() }));
  const others = serve(app);

  return (req, res) => {
    if (admission.ending) res.setHeader("Connection", "close");
    const endpoint = endpoints.get(rawPath(req.url ?? ""));
    if (endpoint === undefined) others(req, res);
    else void receive(req, res, endpoint);
  };
}
