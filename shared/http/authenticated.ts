import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

/**
 * Keys of properties that mark a request and its connection. Every request sets and reads these marks, and a WeakSet
 * would be many times slower.
 */
const AUTHENTICATED = Symbol("authenticated");
const ON_AUTHENTICATED = Symbol("on authenticated");

type MarkedRequest = IncomingMessage & { [AUTHENTICATED]?: true };
type MarkedConnection = Duplex & { [ON_AUTHENTICATED]?: (() => void) | undefined };

/**
 * Marks this request as authenticated. Until it is answered, the server does not close its connection to free a slot
 * for a new one (connections.ts).
 */
export function markAuthenticated(req: MarkedRequest): void {
  req[AUTHENTICATED] = true;
  const connection: MarkedConnection = req.socket;
  const callback = connection[ON_AUTHENTICATED];
  if (callback === undefined) return;
  connection[ON_AUTHENTICATED] = undefined;
  callback();
}

export function isAuthenticated(req: MarkedRequest): boolean {
  return req[AUTHENTICATED] === true;
}

/** Calls `callback` when the first request of this connection is authenticated. */
export function onAuthenticated(connection: MarkedConnection, callback: () => void): void {
  connection[ON_AUTHENTICATED] = callback;
}
