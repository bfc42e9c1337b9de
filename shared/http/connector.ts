import type { Socket } from "node:net";
import { buildConnector } from "undici";

/** Limits on the informational responses (1xx) that one response may be preceded by. */
const INFORMATIONAL_MAX = { count: 16, bytes: 16 * 1024 };

/**
 * Connects the HTTP clients of this program. Its sockets skip informational responses, which a server may send unasked
 * (RFC 9110, 15.2). undici skips them too, but takes 100 (Continue) for a fault and drops the connection.
 */
export function createConnector(options: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector(options);
  return (target, callback) =>
    connect(target, (...[error, socket]) =>
      error === null ? callback(null, skippingInformational(socket)) : callback(error, null),
    );
}

/**
 * Takes informational responses out of what is read from a socket, where a response begins. A response begins after a write,
 * and nowhere else: a client has one request on a connection at a time, and writes it whole in one turn of the event loop. So
 * the body of a response is never searched.
 */
function skippingInformational<Connected extends Socket>(socket: Connected): Connected {
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  const read = socket.read.bind(socket);
  let start: ResponseStart | undefined;

  socket.write = (...args: unknown[]) => {
    start ??= new ResponseStart();
    return write(...args);
  };

  socket.read = (size) => {
    if (size === 0) return read(0);
    for (;;) {
      const chunk: Buffer | null = read(size);
      if (start === undefined || chunk === null) return chunk;
      const rest = start.skip(chunk);
      if (rest === "too many") {
        socket.destroy(new Error("too many informational responses"));
        return null;
      }
      if (rest === undefined) continue;
      start = undefined;
      return rest;
    }
  };

  return socket;
}

/** A status line up to its status. 101 is not skipped: it changes the protocol. */
const INFORMATIONAL = /^HTTP\/1\.\d 1(?!01)\d\d/;
const STATUS_END = "HTTP/1.1 100".length;
const HEAD_END = /\n\r?\n/;

/** The bytes of a connection from the end of a request to the head of its response. */
class ResponseStart {
  /** A head that has begun. */
  #held: Buffer = Buffer.alloc(0);
  #skipped = { count: 0, bytes: 0 };

  /** Returns the rest after the informational responses, or undefined if it takes more bytes to tell. */
  skip(chunk: Buffer): Buffer | undefined | "too many" {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      const status = this.#held.toString("latin1", 0, STATUS_END);
      if (status.length < STATUS_END && "HTTP/1.".startsWith(status.slice(0, 7))) return undefined;
      if (!INFORMATIONAL.test(status)) return this.#held;
      const end = this.#headEnd();
      if (this.#skipped.bytes + (end ?? this.#held.length) > INFORMATIONAL_MAX.bytes) return "too many";
      if (end === undefined) return undefined;
      if (++this.#skipped.count > INFORMATIONAL_MAX.count) return "too many";
      this.#skipped.bytes += end;
      this.#held = this.#held.subarray(end);
    }
  }

  #headEnd(): number | undefined {
    const end = HEAD_END.exec(this.#held.toString("latin1", 0, INFORMATIONAL_MAX.bytes));
    return end === null ? undefined : end.index + end[0].length;
  }
}
