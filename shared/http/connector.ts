import type { Socket } from "node:net";
import { buildConnector } from "undici";

/** Limits on the informational responses (1xx) before one response. */
const INFORMATIONAL_MAX = { count: 16, bytes: 16 * 1024 };

/**
 * Connects this program's HTTP clients. Its sockets skip informational responses, which a server may send unasked (RFC
 * 9110, 15.2). undici skips them too, but treats 100 (Continue) as an error and drops the connection.
 */
export function createConnector(options: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector(options);
  return (target, callback) =>
    connect(target, (...[error, socket]) =>
      error === null ? callback(null, skippingInformational(socket)) : callback(error, null),
    );
}

/**
 * Makes a socket skip informational responses before each response. Only the first bytes after a write are searched.
 * These never belong to the body of a response, because a client has one request at a time on a connection. It writes
 * the whole request in one turn of the event loop, so no response can begin in between.
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

/** Status line of an informational response, up to its status. 101 is not skipped, because it changes the protocol. */
const INFORMATIONAL = /^HTTP\/1\.\d 1(?!01)\d\d/;
const STATUS_END = "HTTP/1.1 100".length;
const HEAD_END = /\n\r?\n/;

/** Finds where the response to a request starts, after any informational responses. */
class ResponseStart {
  /** Bytes of a head that is not complete yet. */
  #held: Buffer = Buffer.alloc(0);
  #skipped = { count: 0, bytes: 0 };

  /** Returns the bytes after the informational responses, or undefined if more bytes are needed. */
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
