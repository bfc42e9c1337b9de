import type { RequestListener } from "node:http";
import type { Readiness } from "../http/readiness.ts";
import type { Composed } from "./part.ts";

type Part = Omit<Composed, "stop">;

/**
 * Limit on retired generations, which are replaced but still finish their work. If one more retires, the oldest drains: it ends
 * requests that wait for results, and returns its long calls to the queue.
 */
const RETIRED_MAX = 3;

/**
 * Holds the generations of a part. The part is composed again for each new configuration, over the same connections, and each
 * composed part is a generation. Two generations behave like two processes. A request is answered by the generation with which it
 * began.
 */
export class Generations<One extends Part> {
  readonly firstCheck: Promise<void>;
  #current: One;
  #next: One | undefined;
  readonly #retired = new Set<{ one: One; ended: Promise<void> }>();
  #closed: Promise<void> | undefined;
  #isEnding = false;

  constructor(first: One) {
    this.#current = first;
    this.firstCheck = first.firstCheck;
  }

  /** The generation that gets new work. */
  get current(): One {
    return this.#current;
  }

  get graceMs(): number {
    return Math.max(...this.#all.map(({ graceMs }) => graceMs));
  }

  readiness(): Readiness {
    return this.#current.readiness();
  }

  /**
   * Makes `next` the current generation once it is ready, and retires the one before it. If `next` cannot become ready, closes it
   * and rejects.
   */
  async follow(next: One): Promise<void> {
    this.#next = next;
    try {
      await next.firstCheck;
    } catch (error) {
      await next.close(0);
      throw error;
    } finally {
      this.#next = undefined;
    }
    if (this.#isEnding) return;
    const last = this.#current;
    this.#current = next;
    this.#retire(last);
  }

  /** Drains all generations, because the process ends. After that, `follow` makes no further generation current. */
  drain(): void {
    this.#isEnding = true;
    for (const one of this.#all) one.drain?.();
  }

  /** Closes the part. A second call returns the same promise. */
  close(graceMs?: number): Promise<void> {
    this.#closed ??= this.#close(graceMs);
    return this.#closed;
  }

  async #close(graceMs?: number): Promise<void> {
    this.drain();
    const retired = [...this.#retired].map(({ one, ended }) => (one.retire ? one.close(graceMs) : ended));
    await Promise.all([this.#current.close(graceMs), this.#next?.close(0), ...retired]);
  }

  get #all(): One[] {
    return [this.#current, ...[...this.#retired].map(({ one }) => one)];
  }

  #retire(one: One): void {
    const [oldest] = this.#retired;
    if (this.#retired.size >= RETIRED_MAX) oldest?.one.drain?.();
    const ended = one.retire === undefined ? one.close() : one.retire().then(() => one.close());
    const retired = { one, ended: ended.finally(() => this.#retired.delete(retired)) };
    this.#retired.add(retired);
  }
}

/** Creates a handler that passes each request to the generation that is current when the request arrives. */
export function handlerOf(generations: Generations<Part & { handler: RequestListener }>): RequestListener {
  return (req, res) => generations.current.handler(req, res);
}
