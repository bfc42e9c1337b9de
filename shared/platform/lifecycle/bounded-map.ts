/**
 * Map with at most `max` entries. Beyond that, the entry that was added first is deleted. To make an entry the newest,
 * delete its key before setting it.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number;

  constructor(max: number) {
    super();
    this.#max = max;
  }

  override set(key: Key, value: Value): this {
    super.set(key, value);
    if (this.size > this.#max) this.delete(this.keys().next().value as Key);
    return this;
  }
}
