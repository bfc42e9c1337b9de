import type { Duplex } from "node:stream";

const LINGER_MS = 1000;

/**
 * Sends `last`, if given, and ends our side. The peer then has a second to end its own side before the socket is
 * destroyed (RFC 9112, section 9.6). Closing while bytes still arrive would reset the connection, and the peer could
 * lose the answer.
 */
export function endAndLinger(socket: Duplex, last?: string): void {
  if (socket.destroyed) return;
  if (last === undefined) socket.end();
  else socket.end(last);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

/** Lets a connection linger after an answer with `Connection: close`. Node would destroy it at once. */
export function lingerOnClose(socket: Duplex & { destroySoon?: () => void }): void {
  socket.destroySoon = () => endAndLinger(socket);
}
