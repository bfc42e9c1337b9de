import type { Fields } from "../log/logger.ts";

export type LoggedEvent = Fields & { readonly event: string };
export type Matches = (event: LoggedEvent) => boolean;

type Waiter = { matches: Matches; resolve(event: LoggedEvent): void };

const KEPT = 10_000;

/** The events of one process, of which the newest some ten thousand are kept, and who waits for one of them. */
export class EventLog {
  readonly #events: LoggedEvent[] = [];
  readonly #waiters = new Set<Waiter>();

  /** Takes a line of the process; one that is no event is ignored. */
  take(line: string): void {
    const event = parseEvent(line);
    if (event === undefined) return;
    this.#events.push(event);
    if (this.#events.length >= 2 * KEPT) this.#events.splice(0, KEPT);
    for (const waiter of this.#waiters) if (waiter.matches(event)) waiter.resolve(event);
  }

  named(name: string | undefined): LoggedEvent[] {
    return this.#events.filter(({ event }) => name === undefined || event === name);
  }

  /** The first match, seen already or yet to come; rejects when `givenUp` does first. */
  async first(matches: Matches, givenUp: Promise<never>): Promise<LoggedEvent> {
    const seen = this.#events.find(matches);
    if (seen !== undefined) return seen;
    const waiter: Waiter = { matches, resolve() {} };
    const coming = new Promise<LoggedEvent>((resolve) => {
      waiter.resolve = resolve;
    });
    this.#waiters.add(waiter);
    try {
      return await Promise.race([coming, givenUp]);
    } finally {
      this.#waiters.delete(waiter);
    }
  }
}

function parseEvent(line: string): LoggedEvent | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const fields = JSON.parse(line) as Fields;
    return typeof fields["event"] === "string" ? (fields as LoggedEvent) : undefined;
  } catch {
    return undefined;
  }
}
