/**
 * Maximum size of a batch of several items. Redis needs a few milliseconds for a batch of this size, and serves no other
 * client during that time.
 */
export const BATCH_BYTES_MAX = 1024 * 1024;
/**
 * Maximum number of items in a batch. With larger batches, Redis would wait while this process prepares a batch, and this
 * process would wait while Redis runs it. With smaller ones, both work at the same time.
 */
const ITEMS_MAX = 24;
/** Maximum number of batches in flight; further items wait. */
const IN_FLIGHT_MAX = 4;

/** Sends a batch, and resolves with a result for each item. */
type Send<Item, Result> = (items: readonly Item[]) => Promise<readonly Result[]>;

type Waiting<Item, Result> = {
  item: Item;
  bytes: number;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
};

/**
 * Collects items and sends them in batches. The items that are added in one turn of the event loop are sent together at its
 * end, or earlier if they fill a batch. While the maximum number of batches is in flight, further items wait, and are sent
 * together once a batch has ended. If a batch fails as a whole, all its items fail.
 */
export class Batches<Item, Result> {
  readonly #send: Send<Item, Result>;
  #waiting: Waiting<Item, Result>[] = [];
  #inFlight = 0;

  constructor(send: Send<Item, Result>) {
    this.#send = send;
  }

  /** Adds an item of `bytes` bytes, and resolves with its result. */
  add(item: Item, bytes: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, bytes, resolve, reject });
      if (this.#waiting.length === 1) setImmediate(() => this.#begin());
      else if (this.#waiting.length >= ITEMS_MAX) this.#begin();
    });
  }

  #begin(): void {
    while (this.#waiting.length > 0 && this.#inFlight < IN_FLIGHT_MAX) void this.#run(this.#next());
  }

  /** Takes the items of the next batch: at least one, even if it is larger than a batch. */
  #next(): Waiting<Item, Result>[] {
    let count = 0;
    let bytes = 0;
    for (const waiting of this.#waiting) {
      bytes += waiting.bytes;
      if (count > 0 && (bytes > BATCH_BYTES_MAX || count === ITEMS_MAX)) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #run(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    this.#inFlight += 1;
    try {
      const results = await this.#send(batch.map(({ item }) => item));
      for (const [i, { resolve }] of batch.entries()) resolve(results[i] as Result);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      this.#inFlight -= 1;
      this.#begin();
    }
  }
}
