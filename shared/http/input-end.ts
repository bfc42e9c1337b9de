import type { IncomingMessage } from "node:http";

/*
 * A client may end its side of the connection (FIN) and still read. One that hangs up sends a FIN too, and only an answer shows the
 * difference. So a request that waits for something is answered at once when its client's side ends, with what is known then.
 */

/** Whether the client has ended its side of the connection. */
export function hasInputEnded({ socket }: IncomingMessage): boolean {
  return socket.readableEnded || socket.destroyed;
}

/** Calls back once the client has ended its side, until the function that it returns is called. */
export function onInputEnd({ socket }: IncomingMessage, tell: () => void): () => void {
  socket.once("end", tell);
  return () => socket.off("end", tell);
}
