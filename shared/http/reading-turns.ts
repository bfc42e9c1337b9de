import type { IncomingMessage } from "node:http";

/** What one request reads of its body in its turn. */
const REQUEST_BYTES = 64 * 1024;
/** How many read in one turn of the event loop. */
const REQUESTS = 16;

/**
 * Bounds what the bodies of all requests read in one turn of the event loop. libuv reads up to 2 MiB of each connection in a turn and
 * takes one new connection, so without a bound whoever connects waits for as many long turns as there are connections before his. A
 * request that has read its part pauses. Requests that have had a turn go on before others, so that few bodies lie half read in memory.
 * The request is paused and not its socket, which Node resumes as long as the request flows.
 */
export class ReadingTurns {
  /** What each request has read since it last paused. */
  readonly #read = new WeakMap<IncomingMessage, number>();
  /** Those that are paused: with a turn behind them, and without. */
  readonly #begun = new Set<IncomingMessage>();
  readonly #fresh = new Set<IncomingMessage>();
  #readByAll = 0;
  #endsSoon = false;

  /** Counts bytes of a request that has more to come, and pauses it if its turn is over, or everybody's. */
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

  /** The request reads no more, and stays as it is. */
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
