import type { IncomingMessage } from "node:http";

/** What one request reads of its body in its turn. */
const REQUEST_BYTES = 64 * 1024;
/** How many read in one turn of the event loop. */
const REQUESTS = 16;

/**
 * Lets the reading of each body have its turn. libuv reads up to 2 MiB of a connection in a turn of the event loop, and takes one new
 * connection in it: whoever comes while many large bodies are read would wait as many long turns as there are connections before his.
 * So a request that has read its part pauses. Those that have had a turn go on first: fewer bodies lie half read in memory. The request is
 * paused and not its socket, which Node resumes by itself as long as the request flows.
 */
export class ReadingTurns {
  /** What each request has read since it last paused. */
  readonly #read = new WeakMap<IncomingMessage, number>();
  readonly #begun = new Set<IncomingMessage>();
  readonly #fresh = new Set<IncomingMessage>();
  #readByAll = 0;
  #isEnding = false;

  /** Says that the request has read so many bytes, and has more to come. */
  has(req: IncomingMessage, bytes: number): void {
    const before = this.#read.get(req);
    const read = (before ?? 0) + bytes;
    this.#read.set(req, read);
    this.#readByAll += bytes;
    this.#endTurn();
    if (read < REQUEST_BYTES && this.#readByAll < REQUESTS * REQUEST_BYTES) return;
    req.pause();
    (before === undefined ? this.#fresh : this.#begun).add(req);
  }

  /** The request reads no more, and stays as it is. */
  leave(req: IncomingMessage): void {
    this.#begun.delete(req);
    this.#fresh.delete(req);
  }

  #endTurn(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    setImmediate(() => {
      this.#isEnding = false;
      this.#readByAll = 0;
      this.#resume(this.#fresh, this.#resume(this.#begun, REQUESTS));
      if (this.#begun.size + this.#fresh.size > 0) this.#endTurn();
    });
  }

  /** Resumes as many at most, and says how many are left. */
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
