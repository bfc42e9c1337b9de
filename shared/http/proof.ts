import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

const proven = new WeakSet<IncomingMessage>();
const waiting = new WeakMap<Duplex, () => void>();

/** Notes that this request has proven its right to enter: it gives way to no other, and neither does its connection. */
export function markProven(req: IncomingMessage): void {
  proven.add(req);
  const tell = waiting.get(req.socket);
  waiting.delete(req.socket);
  tell?.();
}

export function isProven(req: IncomingMessage): boolean {
  return proven.has(req);
}

/** Calls back when the first request of this connection is proven. */
export function onFirstProof(connection: Duplex, tell: () => void): void {
  waiting.set(connection, tell);
}
