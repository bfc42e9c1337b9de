import type { IncomingMessage } from "node:http";
import { rawPath } from "../../shared/http/headers.ts";
import { createFindNear } from "../../shared/http/near-path.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { visible } from "../../shared/platform/text/visible.ts";
import { withoutTokens } from "../../shared/platform/text/without-tokens.ts";
import type { RecordRejected } from "../../shared/telemetry/rejected/record.ts";

type Options = {
  /** Paths of all endpoints. */
  paths: Iterable<string>;
  record: RecordRejected;
  addressOf: (req: IncomingMessage) => string;
  log: Logger;
};

/**
 * Creates the function that logs and records a sample of the requests to unknown paths. Each entry names the endpoint
 * that was probably meant. Only operators see it, because the answer must not reveal the paths of endpoints.
 */
export function createOnUnknownPath({ paths, record, addressOf, log }: Options) {
  const findNear = createFindNear(paths);

  return function onUnknownPath(req: IncomingMessage): void {
    let event = {};
    const address = addressOf(req);
    const count = record(undefined, address, () => {
      const path = rawPath(req.url ?? "");
      const near = findNear(path);
      const reason = near ? `differs from ${near.path} ${near.differs}` : "no endpoint has this path";
      event = { path: visible(withoutTokens(path)), method: req.method, address, reason, meant: near?.path };
      return { req, code: "request.not_found", reason };
    });
    if (count !== undefined) log.warn("webhook.path_unknown", { ...event, count });
  };
}
