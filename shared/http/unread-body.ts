import type { IncomingMessage, ServerResponse } from "node:http";

/** A body that is declared no longer than this is drained, so that the connection can be used again. */
const DRAINED_BYTES_MAX = 64 * 1024;
const LINGER_MS = 1000;

/**
 * Prepares an answer to a request whose body will not be read: a large or unbounded rest is not read on; the connection
 * ends with the answer. Call before the headers are written.
 */
export function leaveUnread(req: IncomingMessage, res: ServerResponse): void {
  if (req.complete || req.destroyed) return;
  if (declaredBytes(req) <= DRAINED_BYTES_MAX && req.headers.expect === undefined) {
    req.resume();
    return;
  }
  req.pause();
  res.setHeader("Connection", "close");
  lingerOnClose(req);
}

function declaredBytes(req: IncomingMessage): number {
  const declared = req.headers["content-length"];
  return declared === undefined ? Number.POSITIVE_INFINITY : Number(declared);
}

/**
 * Ends our side and waits for the peer to end its own (RFC 9112, section 9.6): closing at once with bytes still arriving
 * resets the connection, and the peer may lose the answer.
 */
function lingerOnClose(req: IncomingMessage): void {
  const { socket } = req;
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
  };
}
