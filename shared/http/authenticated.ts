import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

/** On the objects themselves: every request passes here, and a WeakSet costs many times as much. */
const AUTHENTICATED = Symbol("authenticated");
const ON_AUTHENTICATED = Symbol("on authenticated");

type MarkedRequest = IncomingMessage & { [AUTHENTICATED]?: true };
type MarkedConnection = Duplex & { [ON_AUTHENTICATED]?: (() => void) | undefined };

/** Notes that this request is authenticated: it gives way to no other, and neither does its connection. */
export function markAuthenticated(req: MarkedRequest): void {
  req[AUTHENTICATED] = true;
  const connection: MarkedConnection = req.socket;
  const tell = connection[ON_AUTHENTICATED];
  if (tell === undefined) return;
  connection[ON_AUTHENTICATED] = undefined;
  tell();
}

export function isAuthenticated(req: MarkedRequest): boolean {
  return req[AUTHENTICATED] === true;
}

/** Calls back when the first request of this connection is authenticated. */
export function onAuthenticated(connection: MarkedConnection, tell: () => void): void {
  connection[ON_AUTHENTICATED] = tell;
}
