import type { IncomingMessage, ServerResponse } from "node:http";
import { brokenOff } from "./broken-off.ts";
import { lingerOnClose } from "./linger.ts";

/** A body that is declared no longer than this is drained, so that the connection can be used again. */
const DRAINED_BYTES_MAX = 64 * 1024;

/**
 * Prepares an answer to a request whose body will not be read: a large, unbounded or broken-off rest is not read on; the
 * connection ends with the answer. Call before the headers are written.
 */
export function leaveUnread(req: IncomingMessage, res: ServerResponse): void {
  if (req.complete || req.destroyed || declaredBytes(req) === 0) return;
  if (isWorthDraining(req)) {
    req.resume();
    return;
  }
  req.pause();
  res.setHeader("Connection", "close");
  lingerOnClose(req.socket);
}

/** The bytes of the body by its headers; one without either header has none (RFC 9112, section 6.3). */
export function declaredBytes(req: IncomingMessage): number {
  if (req.headers["transfer-encoding"] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(req.headers["content-length"] ?? 0);
}

function isWorthDraining(req: IncomingMessage): boolean {
  if (req.headers.expect !== undefined || brokenOff(req) !== undefined) return false;
  return declaredBytes(req) <= DRAINED_BYTES_MAX;
}
