import type { RequestListener } from "node:http";
import type { Readiness } from "../http/readiness.ts";
import type { Composed } from "./part.ts";

type Part = Omit<Composed, "stop">;

/**
 * Generations that still end their work. With one more, the oldest drains: it answers those who wait for a result, or gives its long calls
 * back.
 */
const RETIRED_MAX = 3;

/**
 * A part that is composed again for each configuration, over the connections that it has. Two generations are like two replicas, and agree
 * on all that replicas agree on. A request ends under the generation that it began with.
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

  /** The one that takes what is new. */
  get current(): One {
    return this.#current;
  }

  get graceMs(): number {
    return Math.max(...this.#all.map(({ graceMs }) => graceMs));
  }

  readiness(): Readiness {
    return this.#current.readiness();
  }

  /** Takes the place of the current one as soon as it can work. Rejects if it cannot, and is closed then. */
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

  /** The process ends: no generation follows, and waits for results end. */
  drain(): void {
    this.#isEnding = true;
    for (const one of this.#all) one.drain?.();
  }

  /** Called again, it is the same end. */
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

/** Gives each request to the generation that is current as it comes. */
export function handlerOf(generations: Generations<Part & { handler: RequestListener }>): RequestListener {
  return (req, res) => generations.current.handler(req, res);
}
