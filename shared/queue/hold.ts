type Hearer = (reason: Error) => void;

/**
 * A worker's hold on the call in its hands. It can be lost, once and for good: the worker stops, or could not renew its
 * lock. A plain object, since an AbortSignal made for each call costs more than reading and parsing the call; who needs
 * one asks for it.
 */
export class Hold {
  #lost: Error | undefined;
  #hearers: Set<Hearer> | undefined;
  #signal: AbortSignal | undefined;

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  /** Aborted when the hold is lost. */
  get signal(): AbortSignal {
    if (this.#signal !== undefined) return this.#signal;
    const controller = new AbortController();
    this.onLost((reason) => controller.abort(reason));
    this.#signal = controller.signal;
    return this.#signal;
  }

  /** Calls `hear` when the hold is lost, at once if it already is. Returns what forgets `hear`. */
  onLost(hear: Hearer): () => void {
    if (this.#lost !== undefined) {
      hear(this.#lost);
      return () => {};
    }
    this.#hearers ??= new Set();
    this.#hearers.add(hear);
    return () => this.#hearers?.delete(hear);
  }

  lose(reason: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = new Error(reason);
    for (const hear of this.#hearers ?? []) hear(this.#lost);
  }
}
