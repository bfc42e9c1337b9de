import type { Duplex } from "node:stream";

const LINGER_MS = 1000;

/**
 * Ends our side, after `last` where it is given, and waits a moment for the peer to end its own (RFC 9112, section 9.6):
 * closing at once with bytes still arriving resets the connection, and the peer may lose the answer. Then the socket is
 * gone, whatever the peer does.
 */
export function endAndLinger(socket: Duplex, last?: string): void {
  if (socket.destroyed) return;
  if (last === undefined) socket.end();
  else socket.end(last);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

/** The same, in place of the abrupt end that Node gives a connection after an answer with `Connection: close`. */
export function lingerOnClose(socket: Duplex & { destroySoon?: () => void }): void {
  socket.destroySoon = () => endAndLinger(socket);
}
