import type { Duplex } from "node:stream";
import { onAuthenticated } from "./authenticated.ts";
import { addressKey } from "./ip/address.ts";

type Connection = Duplex & { readonly remoteAddress?: string | undefined };

type Options = {
  max: number;
  /** Returns whether the server is answering an authenticated request on this connection. */
  isAnswering: (connection: Connection) => boolean;
  /** Closes a connection at once. */
  close: (connection: Connection) => void;
  /** Monotonic time in milliseconds. */
  now?: () => number;
};

/**
 * Connections of one client address on which no request has been authenticated, with the time each was opened, oldest
 * first.
 */
type AddressGroup = Map<Connection, number>;

/**
 * Age in ms up to which a connection should not be closed for a new one. A sender needs much less time to get its first
 * request authenticated. A connection that is older and has no authenticated request is slow, stalled or idle.
 */
const SPARED_MS = 1000;

/**
 * Limits a server's connections to `max`. At the limit, each new connection closes one, in this order:
 * 1. Among connections without an authenticated request: the oldest one of the address with the most. If possible, this
 *    spares addresses whose oldest connection is younger than a second.
 * 2. The connection that was authenticated first, among those on which no authenticated request is being answered.
 * 3. The new connection.
 * So a flood closes its own connections. A sender keeps its connection once a request on it is authenticated.
 */
export class Connections {
  readonly #options: Options;
  readonly #now: () => number;
  /** All connections, with the key of their address. */
  readonly #keys = new Map<Connection, string>();
  readonly #groups = new Map<string, AddressGroup>();
  readonly #authenticated = new Set<Connection>();

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
      const victim = this.#oldestUnauthenticated() ?? this.#oldestIdle() ?? connection;
      this.#remove(victim);
      close(victim);
      if (victim === connection) return;
    }
    const key = addressKey(connection.remoteAddress ?? "unknown");
    this.#keys.set(connection, key);
    const group = this.#groups.get(key) ?? new Map();
    this.#groups.set(key, group.set(connection, this.#now()));
    onAuthenticated(connection, () => {
      this.#leaveGroup(connection);
      if (this.#keys.has(connection)) this.#authenticated.add(connection);
    });
    connection.once("close", () => this.#remove(connection));
  }

  #oldestUnauthenticated(): Connection | undefined {
    return (
      this.#oldestOfLargestGroup(this.#now() - SPARED_MS) ??
      this.#oldestOfLargestGroup(Number.POSITIVE_INFINITY)
    );
  }

  /**
   * Returns the oldest connection of the address with the most connections, among addresses whose oldest connection
   * predates `openedBefore`.
   */
  #oldestOfLargestGroup(openedBefore: number): Connection | undefined {
    let most = 0;
    let found: Connection | undefined;
    for (const group of this.#groups.values()) {
      if (group.size <= most) continue;
      const [oldest] = group;
      if (oldest === undefined || oldest[1] >= openedBefore) continue;
      [found] = oldest;
      most = group.size;
    }
    return found;
  }

  #oldestIdle(): Connection | undefined {
    for (const connection of this.#authenticated)
      if (!this.#options.isAnswering(connection)) return connection;
    return undefined;
  }

  #remove(connection: Connection): void {
    this.#leaveGroup(connection);
    this.#authenticated.delete(connection);
    this.#keys.delete(connection);
  }

  #leaveGroup(connection: Connection): void {
    const key = this.#keys.get(connection);
    const group = key === undefined ? undefined : this.#groups.get(key);
    if (key === undefined || !group?.delete(connection)) return;
    if (group.size === 0) this.#groups.delete(key);
  }
}
