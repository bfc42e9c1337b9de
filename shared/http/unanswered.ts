import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

const bySocket = new WeakMap<Duplex, Set<ServerResponse>>();

/**
 * Returns a connection's unsent answers, in order. A client that pipelines (RFC 9112, section 9.3.2) may have several.
 */
export function unansweredOn(socket: Duplex): ReadonlySet<ServerResponse> {
  return answersOn(socket);
}

/**
 * Counts an answer among the unsent ones of its connection until it emits `close`. The end of the connection also makes
 * it emit `close`.
 */
export function trackAnswer(res: ServerResponse): void {
  const unanswered = answersOn(res.req.socket);
  if (unanswered.has(res)) return;
  unanswered.add(res);
  res.on("close", () => unanswered.delete(res));
}

function answersOn(socket: Duplex): Set<ServerResponse> {
  const found = bySocket.get(socket);
  if (found !== undefined) return found;
  const unanswered = new Set<ServerResponse>();
  bySocket.set(socket, unanswered);
  // Ends the answers that Node leaves open. Node 20 ends only the answer that is being written, not those that wait for
  // it. `setImmediate` lets Node end its own first.
  socket.once("close", () => setImmediate(endAll, unanswered));
  return unanswered;
}

function endAll(unanswered: ReadonlySet<ServerResponse>): void {
  for (const res of unanswered) {
    res.destroy();
    res.emit("close");
  }
}
