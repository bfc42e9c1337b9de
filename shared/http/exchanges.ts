import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { isAuthenticated } from "./authenticated.ts";
import { lingerOnClose } from "./linger.ts";
import { trackAnswer, unansweredOn } from "./unanswered.ts";

type Connection = Duplex & { readonly bytesRead?: number };

/** What is known of one connection. */
type UnderWay = {
  /** The request that began last. */
  last?: IncomingMessage;
  readonly unanswered: ReadonlySet<ServerResponse>;
  /** When the last answer ended, and how many bytes had come by then: more bytes are a request that has begun to arrive. */
  idle: { since: number; bytesRead: number };
};

/** A connection takes at most so many requests that wait for their answers, and ends with the answer to the last of them. */
const PIPELINED_MAX = 64;

/** The requests under way on each connection of a server. An answer written to the socket itself must wait for theirs. */
export class Exchanges {
  readonly #bySocket = new Map<Connection, UnderWay>();
  #isEnding = false;

  connected(socket: Connection): void {
    this.#bySocket.set(socket, { unanswered: unansweredOn(socket), idle: idleNow(socket) });
    socket.once("close", () => this.#bySocket.delete(socket));
  }

  /**
   * False if the connection ends with the answer to an earlier request: this one must not be processed, because it would get no
   * answer (RFC 9112, section 9.6).
   */
  begin(req: IncomingMessage, res: ServerResponse): boolean {
    const known = this.#bySocket.get(req.socket);
    if (known === undefined) return false; // the connection is gone
    for (const earlier of known.unanswered) {
      if (earlier.shouldKeepAlive) continue;
      // Node keeps each request that it reads until the connection ends, so no more is read. Node reads on after each request, so later.
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

  /** From now on each connection ends with the answer to the last request that it has brought. */
  end(): void {
    this.#isEnding = true;
    for (const { unanswered } of this.#bySocket.values()) {
      const last = [...unanswered].at(-1);
      if (last !== undefined && !last.headersSent) last.shouldKeepAlive = false;
    }
  }

  /** Closes the connections on which nothing has happened for `idleMs`. */
  closeIdle(idleMs: number): void {
    const before = performance.now() - idleMs;
    for (const [socket, { unanswered, idle }] of this.#bySocket) {
      if (unanswered.size === 0 && idle.since <= before && idle.bytesRead === socket.bytesRead)
        socket.destroy();
    }
  }

  /** The request of this connection that has begun to arrive and is not complete. */
  unfinished(socket: Connection): IncomingMessage | undefined {
    const last = this.#bySocket.get(socket)?.last;
    return last === undefined || last.complete ? undefined : last;
  }

  /** Whether a request is being answered on this connection that has proven its right to enter. */
  hasProven(socket: Connection): boolean {
    return [...this.#unanswered(socket)].some(({ req }) => isAuthenticated(req));
  }

  /** Resolves when every request that has begun is answered, or the connection is gone. */
  async answered(socket: Connection): Promise<void> {
    await Promise.all(
      [...this.#unanswered(socket)].map((res) => new Promise((resolve) => res.once("close", resolve))),
    );
  }

  #unanswered(socket: Connection): Iterable<ServerResponse> {
    return this.#bySocket.get(socket)?.unanswered ?? [];
  }
}

function idleNow({ bytesRead = 0 }: Connection): UnderWay["idle"] {
  return { since: performance.now(), bytesRead };
}
