type Options<Claimed> = {
  /** It looks at least so often, in ms. */
  everyMs: number;
  /** So much is under way at once; the rest waits in the store. */
  concurrency: number;
  /** Ids of what is due, the longest due first. */
  due(countMax: number): Promise<string[]>;
  /** Undefined if another runner was faster. */
  claim(id: string): Promise<Claimed | undefined>;
  /** Does what was claimed. It never rejects. */
  work(id: string, claimed: Claimed): Promise<void>;
  onLookFailed(error: unknown): void;
};

/** Claims from a store what is due there, and works on it. Any number of runners may share the store. */
export class DueWork<Claimed> {
  readonly #options: Options<Claimed>;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  constructor(options: Options<Claimed>) {
    this.#options = options;
    this.#timer = setInterval(this.wake, options.everyMs);
  }

  /** Looks now for what is due. */
  readonly wake = (): void => {
    if (this.stopping.aborted) return;
    this.#lookAgain = true;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      if (this.#lookAgain) this.wake();
    });
  };

  /** Aborted as soon as it is to stop. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Claims nothing more. Resolves when what is under way has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort(new Error("the runner stops"));
    await this.#looking;
    await Promise.all(this.#underWay.values());
  }

  async #look(): Promise<void> {
    while (this.#lookAgain && !this.stopping.aborted) {
      this.#lookAgain = false;
      await this.#claimDue().catch(this.#options.onLookFailed);
    }
  }

  async #claimDue(): Promise<void> {
    const { due, claim, concurrency } = this.#options;
    for (const id of await due(concurrency + this.#underWay.size)) {
      if (this.#underWay.size >= concurrency || this.stopping.aborted) return;
      if (this.#underWay.has(id)) continue;
      const claimed = await claim(id);
      if (claimed !== undefined) this.#start(id, claimed);
    }
  }

  #start(id: string, claimed: Claimed): void {
    const ended = this.#options.work(id, claimed).finally(() => {
      this.#underWay.delete(id);
      this.wake();
    });
    this.#underWay.set(id, ended);
  }
}
