import type { IncomingMessage, RequestListener } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";
import { originForm } from "./headers.ts";
import { sendProblem } from "./problem.ts";

/** A server with mount paths, such as Express, leaves the target that came in `originalUrl`, and takes its own part from `url`. */
type MountedRequest = IncomingMessage & { originalUrl?: string };

/** The target as its client sent it, with the path under which the server has the handler. */
export function wholeTarget(req: MountedRequest): string {
  return originForm(req.originalUrl ?? req.url ?? "");
}

/** The handler, for a server that leaves the path under which it has the handler in `url`. */
export function mountedAt(mountPath: string, handler: RequestListener): RequestListener {
  return (req: MountedRequest, res) => {
    const whole = wholeTarget(req);
    const rest = whole.startsWith(mountPath) ? whole.slice(mountPath.length) : undefined;
    if (rest === undefined || !/^(?:[/?]|$)/.test(rest)) {
      const reason = `no such path: ${whole} is not below ${mountPath}`;
      return sendProblem(req, res, new AppError("request.not_found", { reason }));
    }
    req.originalUrl = whole;
    req.url = rest.startsWith("/") ? rest : `/${rest}`;
    handler(req, res);
  };
}
