import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

/** On the objects themselves: every request passes here, and a WeakSet costs many times as much. */
const PROVEN = Symbol("proven");
const ON_FIRST_PROOF = Symbol("on first proof");

type MarkedRequest = IncomingMessage & { [PROVEN]?: true };
type MarkedConnection = Duplex & { [ON_FIRST_PROOF]?: (() => void) | undefined };

/** Notes that this request has proven its right to enter: it gives way to no other, and neither does its connection. */
export function markProven(req: MarkedRequest): void {
  req[PROVEN] = true;
  const connection: MarkedConnection = req.socket;
  const tell = connection[ON_FIRST_PROOF];
  if (tell === undefined) return;
  connection[ON_FIRST_PROOF] = undefined;
  tell();
}

export function isProven(req: MarkedRequest): boolean {
  return req[PROVEN] === true;
}

/** Calls back when the first request of this connection is proven. */
export function onFirstProof(connection: MarkedConnection, tell: () => void): void {
  connection[ON_FIRST_PROOF] = tell;
}
