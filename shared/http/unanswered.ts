import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

const bySocket = new WeakMap<Duplex, Set<ServerResponse>>();

/**
 * The answers of a connection that are not sent yet, in their order. A client may pipeline (RFC 9112, section 9.3.2), so there may be
 * several.
 */
export function unansweredOn(socket: Duplex): ReadonlySet<ServerResponse> {
  return known(socket);
}

/** Keeps an answer among the unsent ones until it emits `close`, which it does at the latest when its connection ends. */
export function trackAnswer(res: ServerResponse): void {
  const unanswered = known(res.req.socket);
  if (unanswered.has(res)) return;
  unanswered.add(res);
  res.on("close", () => unanswered.delete(res));
}

function known(socket: Duplex): Set<ServerResponse> {
  const found = bySocket.get(socket);
  if (found !== undefined) return found;
  const unanswered = new Set<ServerResponse>();
  bySocket.set(socket, unanswered);
  // By then Node has ended what it ends itself: Node 20 ends only the answer that is being written, and none that waits behind it.
  socket.once("close", () => setImmediate(endAll, unanswered));
  return unanswered;
}

function endAll(unanswered: ReadonlySet<ServerResponse>): void {
  for (const res of unanswered) {
    res.destroy();
    res.emit("close");
  }
}
