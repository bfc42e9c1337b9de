import type { Due } from "./due.ts";

type Options<Claimed> = {
  /** Longest time between two checks. Work that another process adds is found within this time. */
  everyMs: number;
  /** Maximum number of items in work at the same time. The others wait in the store. */
  concurrency: number;
  due(countMax: number): Promise<Due>;
  /** Claims an item of work. Undefined if another runner was faster. */
  claim(id: string): Promise<Claimed | undefined>;
  /** Does the claimed work. Must never reject. */
  work(id: string, claimed: Claimed): Promise<void>;
  onCheckFailed(error: unknown): void;
};

/** Shortest delay of the timer. So items that become due shortly after each other are claimed in one check. */
const CHECK_GAP_MS = 20;

/**
 * Claims due work from a store and does it. Any number of runners may share the store. Each check sets the timer to the time
 * when the next work becomes due, for example because a pause or a lease ends. The store's clock decides what is due: if the
 * timer fires too early, the check finds nothing and sets it again.
 */
export class DueWork<Claimed> {
  readonly #options: Options<Claimed>;
  readonly #inFlight = new Map<string, Promise<void>>();
  #isStopping = false;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;
  #checkAgain = false;

  constructor(options: Options<Claimed>) {
    this.#options = options;
    this.#checkIn(options.everyMs);
  }

  /** Checks now for due work. */
  readonly wake = (): void => {
    if (this.#isStopping) return;
    this.#checkAgain = true;
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
      if (this.#checkAgain) this.wake();
    });
  };

  /** Stops claiming. Resolves when the work in flight has ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#checking;
    clearTimeout(this.#timer);
    await Promise.all(this.#inFlight.values());
  }

  async #check(): Promise<void> {
    while (this.#checkAgain && !this.#isStopping) {
      this.#checkAgain = false;
      await this.#claimDue().catch(this.#options.onCheckFailed);
    }
  }

  async #claimDue(): Promise<void> {
    const { due, claim, concurrency, everyMs } = this.#options;
    this.#checkIn(everyMs);
    const { ids, nextInMs = everyMs } = await due(concurrency + this.#inFlight.size);
    this.#checkIn(nextInMs);
    for (const id of ids) {
      // Without free capacity, a check at `nextInMs` could claim nothing. When some work in flight ends, `#start` checks
      // again.
      if (this.#inFlight.size >= concurrency || this.#isStopping) return this.#checkIn(everyMs);
      if (this.#inFlight.has(id)) continue;
      const claimed = await claim(id);
      if (claimed !== undefined) this.#start(id, claimed);
    }
  }

  #checkIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.wake, Math.min(Math.max(ms, CHECK_GAP_MS), this.#options.everyMs));
  }

  #start(id: string, claimed: Claimed): void {
    const ended = this.#options.work(id, claimed).finally(() => {
      this.#inFlight.delete(id);
      this.wake();
    });
    this.#inFlight.set(id, ended);
  }
}
