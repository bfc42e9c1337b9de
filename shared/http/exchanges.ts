import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { isAuthenticated } from "./authenticated.ts";
import { lingerOnClose } from "./linger.ts";
import { trackAnswer, unansweredOn } from "./unanswered.ts";

type Connection = Duplex & { readonly bytesRead?: number };

/** State of one connection. */
type ConnectionState = {
  /** The newest request of the connection. */
  last?: IncomingMessage;
  readonly unanswered: ReadonlySet<ServerResponse>;
  /**
   * Time at which the last answer ended, and the bytes received up to then. If more bytes have arrived since, a new
   * request has begun.
   */
  idle: { since: number; bytesRead: number };
};

/**
 * Limit on unanswered requests of a connection. At the limit, the server reads no further request from the connection,
 * and ends it with the answer to its newest request.
 */
const PIPELINED_MAX = 64;

/**
 * Tracks the requests in flight on each connection of a server. An answer that bypasses Node's ServerResponse and is
 * written directly to the socket must wait until these requests are answered.
 */
export class Exchanges {
  readonly #bySocket = new Map<Connection, ConnectionState>();
  #isEnding = false;

  connected(socket: Connection): void {
    this.#bySocket.set(socket, { unanswered: unansweredOn(socket), idle: idleNow(socket) });
    socket.once("close", () => this.#bySocket.delete(socket));
  }

  /**
   * Registers a request. Returns false if the connection ends with the answer to an earlier request. The new request
   * must not be processed then, because it would get no answer (RFC 9112, section 9.6).
   */
  begin(req: IncomingMessage, res: ServerResponse): boolean {
    const known = this.#bySocket.get(req.socket);
    if (known === undefined) return false; // the connection is gone
    for (const earlier of known.unanswered) {
      if (earlier.shouldKeepAlive) continue;
      // Node keeps every request that it reads in memory until the connection ends, so this stops reading from the
      // socket. Node resumes reading after each request, so the pause must come later.
      setImmediate(() => req.socket.pause());
      lingerOnClose(req.socket);
      return false;
    }
    known.last = req;
    trackAnswer(res);
    if (this.#isEnding || known.unanswered.size >= PIPELINED_MAX) res.shouldKeepAlive = false;
    res.on("close", () => {
      known.idle = idleNow(req.socket);
    });
    return true;
  }

  /** Makes each connection end with the answer to the newest request that it has received. */
  end(): void {
    this.#isEnding = true;
    for (const { unanswered } of this.#bySocket.values()) {
      const last = [...unanswered].at(-1);
      if (last !== undefined && !last.headersSent) last.shouldKeepAlive = false;
    }
  }

  /** Closes connections that have been idle for `idleMs`. */
  closeIdle(idleMs: number): void {
    const before = performance.now() - idleMs;
    for (const [socket, { unanswered, idle }] of this.#bySocket) {
      if (unanswered.size === 0 && idle.since <= before && idle.bytesRead === socket.bytesRead)
        socket.destroy();
    }
  }

  /** Returns the connection's request that has begun to arrive and is not complete. */
  unfinished(socket: Connection): IncomingMessage | undefined {
    const last = this.#bySocket.get(socket)?.last;
    return last === undefined || last.complete ? undefined : last;
  }

  /** Returns whether an authenticated request is being answered on this connection. */
  isAnsweringAuthenticated(socket: Connection): boolean {
    return [...this.#unanswered(socket)].some(({ req }) => isAuthenticated(req));
  }

  /** Resolves when every request so far is answered, or the connection is gone. */
  async answered(socket: Connection): Promise<void> {
    await Promise.all(
      [...this.#unanswered(socket)].map((res) => new Promise((resolve) => res.once("close", resolve))),
    );
  }

  #unanswered(socket: Connection): Iterable<ServerResponse> {
    return this.#bySocket.get(socket)?.unanswered ?? [];
  }
}

function idleNow({ bytesRead = 0 }: Connection): ConnectionState["idle"] {
  return { since: performance.now(), bytesRead };
}
