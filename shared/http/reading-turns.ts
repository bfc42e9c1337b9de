import type { IncomingMessage } from "node:http";

/** Limit on the bytes that one request reads of its body in one turn. */
const REQUEST_BYTES = 64 * 1024;
/**
 * Limit on the paused requests that continue in one turn. All requests together may read this many times
 * `REQUEST_BYTES`.
 */
const REQUESTS = 16;

/**
 * Limits the bytes that all requests read of their bodies in one turn of the event loop. In one turn, libuv reads up to
 * 2 MiB of each connection, but accepts only one new connection. So without a limit, a new client would wait for many
 * long turns while others send large bodies. A request that has used up its limit pauses. Requests that have already
 * read some bytes resume first, because half-read bodies use memory until they are complete. The request is paused and
 * not its socket, because Node resumes the socket as long as the request flows.
 */
export class ReadingTurns {
  /** Bytes that each request has read since its last pause. */
  readonly #read = new WeakMap<IncomingMessage, number>();
  /** Paused requests that had been paused and resumed before. Part of their body is in memory, so they resume first. */
  readonly #begun = new Set<IncomingMessage>();
  /** Paused requests that have read only the first bytes of their body. */
  readonly #fresh = new Set<IncomingMessage>();
  #readByAll = 0;
  #endsSoon = false;

  /**
   * Counts bytes that a request has read before the end of its body. Pauses the request if it has used up its limit, or
   * if all requests together have used up theirs.
   */
  count(req: IncomingMessage, bytes: number): void {
    const before = this.#read.get(req);
    const read = (before ?? 0) + bytes;
    this.#read.set(req, read);
    this.#readByAll += bytes;
    this.#endTurnSoon();
    if (read < REQUEST_BYTES && this.#readByAll < REQUESTS * REQUEST_BYTES) return;
    req.pause();
    (before === undefined ? this.#fresh : this.#begun).add(req);
  }

  /** Removes a request that has stopped reading. A paused request stays paused. */
  leave(req: IncomingMessage): void {
    this.#begun.delete(req);
    this.#fresh.delete(req);
  }

  #endTurnSoon(): void {
    if (this.#endsSoon) return;
    this.#endsSoon = true;
    setImmediate(() => {
      this.#endsSoon = false;
      this.#readByAll = 0;
      this.#resume(this.#fresh, this.#resume(this.#begun, REQUESTS));
      if (this.#begun.size + this.#fresh.size > 0) this.#endTurnSoon();
    });
  }

  /** Resumes at most `places` requests. Returns the number of places left. */
  #resume(paused: Set<IncomingMessage>, places: number): number {
    let left = places;
    for (const req of paused) {
      if (left === 0) break;
      left -= 1;
      paused.delete(req);
      this.#read.set(req, 0);
      req.resume();
    }
    return left;
  }
}
