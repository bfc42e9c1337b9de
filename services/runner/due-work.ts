import type { Due } from "./due.ts";

type Options<Claimed> = {
  /** Longest time between two looks, which also find what other processes have added. */
  everyMs: number;
  /** Limit on work in flight; the rest waits in the store. */
  concurrency: number;
  due(countMax: number): Promise<Due>;
  /** Undefined if another runner was faster. */
  claim(id: string): Promise<Claimed | undefined>;
  /** Does what was claimed. It never rejects. */
  work(id: string, claimed: Claimed): Promise<void>;
  onLookFailed(error: unknown): void;
};

/** Shortest delay of the timer: what becomes due close together shares one look. */
const LOOK_GAP_MS = 20;

/**
 * Claims work that is due from a store and does it. Any number of runners may share the store. Each look sets the timer to the time when
 * the next work becomes due, such as the end of a pause or lease. The store's clock decides: if the timer is early, it is set once more.
 */
export class DueWork<Claimed> {
  readonly #options: Options<Claimed>;
  readonly #inFlight = new Map<string, Promise<void>>();
  #isStopping = false;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  constructor(options: Options<Claimed>) {
    this.#options = options;
    this.#lookIn(options.everyMs);
  }

  /** Looks now for what is due. */
  readonly wake = (): void => {
    if (this.#isStopping) return;
    this.#lookAgain = true;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      if (this.#lookAgain) this.wake();
    });
  };

  /** Claims nothing more. Resolves when what is in flight has ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#looking;
    clearTimeout(this.#timer);
    await Promise.all(this.#inFlight.values());
  }

  async #look(): Promise<void> {
    while (this.#lookAgain && !this.#isStopping) {
      this.#lookAgain = false;
      await this.#claimDue().catch(this.#options.onLookFailed);
    }
  }

  async #claimDue(): Promise<void> {
    const { due, claim, concurrency, everyMs } = this.#options;
    this.#lookIn(everyMs);
    const { ids, nextInMs = everyMs } = await due(concurrency + this.#inFlight.size);
    this.#lookIn(nextInMs);
    for (const id of ids) {
      // An end of what is in flight wakes it, and no look before that can claim more.
      if (this.#inFlight.size >= concurrency || this.#isStopping) return this.#lookIn(everyMs);
      if (this.#inFlight.has(id)) continue;
      const claimed = await claim(id);
      if (claimed !== undefined) this.#start(id, claimed);
    }
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.wake, Math.min(Math.max(ms, LOOK_GAP_MS), this.#options.everyMs));
  }

  #start(id: string, claimed: Claimed): void {
    const ended = this.#options.work(id, claimed).finally(() => {
      this.#inFlight.delete(id);
      this.wake();
    });
    this.#inFlight.set(id, ended);
  }
}
