/** Redis does nothing else while it runs a batch, so none of several items is larger: a few milliseconds. */
export const BATCH_BYTES_MAX = 1024 * 1024;
/** With more, this process and Redis would take turns to work, instead of working side by side. */
const ITEMS_MAX = 24;
/** While so many are under way, what comes waits for the next one. */
const UNDER_WAY_MAX = 4;

/** Sends a batch, and resolves with a result for each item. */
type Send<Item, Result> = (items: readonly Item[]) => Promise<readonly Result[]>;

type Waiting<Item, Result> = {
  item: Item;
  bytes: number;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
};

/**
 * Sends together what comes in one turn of the event loop, or while as many batches as may be are under way: a full batch at once. If a
 * batch fails as a whole, all that is in it fails.
 */
export class Batches<Item, Result> {
  readonly #send: Send<Item, Result>;
  #waiting: Waiting<Item, Result>[] = [];
  #underWay = 0;

  constructor(send: Send<Item, Result>) {
    this.#send = send;
  }

  /** Resolves with the result of the item, which is so many bytes large. */
  add(item: Item, bytes: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, bytes, resolve, reject });
      if (this.#waiting.length === 1) setImmediate(() => this.#begin());
      else if (this.#waiting.length >= ITEMS_MAX) this.#begin();
    });
  }

  #begin(): void {
    while (this.#waiting.length > 0 && this.#underWay < UNDER_WAY_MAX) void this.#run(this.#next());
  }

  /** At least one item, however large. */
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
    this.#underWay += 1;
    try {
      const results = await this.#send(batch.map(({ item }) => item));
      for (const [i, { resolve }] of batch.entries()) resolve(results[i] as Result);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      this.#underWay -= 1;
      this.#begin();
    }
  }
}
