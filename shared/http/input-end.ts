import type { IncomingMessage } from "node:http";

/*
 * A client may end its side of the connection (FIN) and still read. A client that hangs up sends a FIN too, and only
 * writing an answer shows the difference. So a waiting request is answered at once when its client's side ends, with
 * the state known then.
 */

/** Returns whether the client has ended its side of the connection. */
export function hasInputEnded({ socket }: IncomingMessage): boolean {
  return socket.readableEnded || socket.destroyed;
}

/** Calls `callback` once the client has ended its side. Returns a function that cancels this. */
export function onInputEnd({ socket }: IncomingMessage, callback: () => void): () => void {
  socket.once("end", callback);
  return () => socket.off("end", callback);
}
