import type { Duplex } from "node:stream";
import { onAuthenticated } from "./authenticated.ts";
import { addressKey } from "./ip/address.ts";

type Connection = Duplex & { readonly remoteAddress?: string | undefined };

type Options = {
  max: number;
  /** Whether a proven request is being answered on it. */
  isNeeded: (connection: Connection) => boolean;
  /** Closes a connection at once. */
  close: (connection: Connection) => void;
  /** In milliseconds, from any beginning. */
  now?: () => number;
};

/** Unproven connections of one address with the time each was opened, the oldest first. */
type Crowd = Map<Connection, number>;

/** Much more than a sender needs for its first request; whoever is unproven for longer is slow, stalled or idle. */
const PATIENCE_MS = 1000;

/**
 * The connections of a server, `max` at most. At the limit a new connection is taken all the same, and one is closed:
 * 1. of those with no proven request so far, the oldest of the address that has most of them; addresses whose oldest is not
 *    a second old are spared if there are others;
 * 2. else the one that was proven first and is not answering a proven request;
 * 3. else the new one.
 * So a flood takes its own places, and an honest sender keeps its connection once a request of it is proven.
 */
export class Connections {
  readonly #options: Options;
  readonly #now: () => number;
  /** All of them, with the key of their address. */
  readonly #keys = new Map<Connection, string>();
  readonly #crowds = new Map<string, Crowd>();
  readonly #proven = new Set<Connection>();

  constructor(options: Options) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  get count(): number {
    return this.#keys.size;
  }

  add(connection: Connection): void {
    const { max, close } = this.#options;
    if (this.#keys.size >= max) {
      const victim = this.#oldestUnproven() ?? this.#oldestUnneeded() ?? connection;
      this.#remove(victim);
      close(victim);
      if (victim === connection) return;
    }
    const key = addressKey(connection.remoteAddress ?? "unknown");
    this.#keys.set(connection, key);
    const crowd = this.#crowds.get(key) ?? new Map();
    this.#crowds.set(key, crowd.set(connection, this.#now()));
    onAuthenticated(connection, () => {
      this.#leaveCrowd(connection);
      if (this.#keys.has(connection)) this.#proven.add(connection);
    });
    connection.once("close", () => this.#remove(connection));
  }

  #oldestUnproven(): Connection | undefined {
    return this.#oldestOfMost(this.#now() - PATIENCE_MS) ?? this.#oldestOfMost(Number.POSITIVE_INFINITY);
  }

  /** The oldest of the largest crowd among those whose oldest was opened before then. */
  #oldestOfMost(openedBefore: number): Connection | undefined {
    let most = 0;
    let found: Connection | undefined;
    for (const crowd of this.#crowds.values()) {
      if (crowd.size <= most) continue;
      const [oldest] = crowd;
      if (oldest === undefined || oldest[1] >= openedBefore) continue;
      [found] = oldest;
      most = crowd.size;
    }
    return found;
  }

  #oldestUnneeded(): Connection | undefined {
    for (const connection of this.#proven) if (!this.#options.isNeeded(connection)) return connection;
    return undefined;
  }

  #remove(connection: Connection): void {
    this.#leaveCrowd(connection);
    this.#proven.delete(connection);
    this.#keys.delete(connection);
  }

  #leaveCrowd(connection: Connection): void {
    const key = this.#keys.get(connection);
    const crowd = key === undefined ? undefined : this.#crowds.get(key);
    if (key === undefined || !crowd?.delete(connection)) return;
    if (crowd.size === 0) this.#crowds.delete(key);
  }
}
