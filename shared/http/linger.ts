import type { Duplex } from "node:stream";

const LINGER_MS = 1000;

/**
 * Sends `last`, if given, and ends this side of the connection. The client then has a second to end its side before the
 * socket is destroyed (RFC 9112, section 9.6). To close the socket while bytes still arrive would reset the connection,
 * and the client could lose the answer.
 */
export function endAndLinger(socket: Duplex, last?: string): void {
  if (socket.destroyed) return;
  if (last === undefined) socket.end();
  else socket.end(last);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

/**
 * Makes Node use `endAndLinger` when it closes this connection, after an answer with `Connection: close`. By default,
 * Node would destroy the socket at once.
 */
export function lingerOnClose(socket: Duplex & { destroySoon?: () => void }): void {
  socket.destroySoon = () => endAndLinger(socket);
}
