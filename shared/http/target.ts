import type { IncomingMessage, RequestListener } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";
import { originForm } from "./headers.ts";
import { sendProblem } from "./problem.ts";

/**
 * Request of a server that can mount handlers at a path, such as Express. The server keeps the received target in
 * `originalUrl`, and removes the mount path from `url`.
 */
type MountedRequest = IncomingMessage & { originalUrl?: string };

/** Returns the target as the client sent it, including the mount path. */
export function wholeTarget(req: MountedRequest): string {
  return originForm(req.originalUrl ?? req.url ?? "");
}

/** Adapts a handler for a server that does not remove the mount path from `url`. */
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
