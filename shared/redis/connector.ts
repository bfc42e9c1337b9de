import { connect as connectPlain, isIP, Socket, type TcpNetConnectOpts } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions } from "ioredis";
import type { Secret } from "../platform/crypto/secret.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import { within } from "../platform/time/clock.ts";

export type ServerAddress = { readonly host: string; readonly port: number };

export type Login = {
  readonly username?: string | undefined;
  readonly password?: Secret | undefined;
  readonly tls?: TlsSettings | undefined;
};

/**
 * TLS settings of a connection. The server's certificate must be for `serverName` if it is given, or otherwise for the host.
 */
type TlsSettings = {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: Secret | undefined;
  readonly serverName?: string | undefined;
};

/** Servers that are asked for the address of the primary, and which primary they are asked for. */
export type Finder =
  | {
      readonly kind: "sentinels";
      readonly servers: readonly ServerAddress[];
      readonly masterName: string;
      /** Login for the sentinels themselves. */
      readonly login: Login;
    }
  /** Nodes of a Redis Cluster. The primary is the node that has the slot of `key`: all keys of a partition are in this slot. */
  | { readonly kind: "nodes"; readonly servers: readonly ServerAddress[]; readonly key: string };

/** A Redis whose primary is looked up for each connection. */
export type PrimaryLookup = Login & {
  readonly finder: Finder;
  /** Maps an address (`host:port`) that sentinels or nodes report to the address at which this process reaches that server. */
  readonly natMap?: Readonly<Record<string, ServerAddress>> | undefined;
  /**
   * Set if all replicas must confirm writes (durability `replicated`): the minimum number of replicas, and the prefix of all
   * keys.
   */
  readonly confirmed?: { readonly minReplicas: number; readonly prefix: string } | undefined;
};

/** Time limit for the answer of one sentinel or node. */
const ASK_MS = 1000;
/** Time limit within which a server, after its connection is opened, must show that it is the primary. */
const OPEN_MS = 3000;

type ErrorEmitter = Parameters<AbstractConnector["connect"]>[0];
type Stream = Awaited<ReturnType<AbstractConnector["connect"]>>;

type SocketOptions = Pick<RedisOptions, "host" | "port" | "family" | "path" | "tls">;

/**
 * Opens a socket with a handler for all of its errors. ioredis handles only the first error. Node may emit a second one, for
 * example an alert that the server sends after its certificate was refused. Without a handler, it would end the process.
 */
function openSocket({ host, port, family, path, tls }: SocketOptions): Stream {
  const place = path ? { path } : ({ host, port, family } as TcpNetConnectOpts);
  const socket = tls ? connectTls({ ...place, ...tls }) : connectPlain(place);
  return socket.on("error", () => {});
}

/** Connects ioredis to the server in its options. */
export class ServerConnector extends AbstractConnector {
  readonly #options: SocketOptions;

  constructor(options: unknown) {
    super((options as { disconnectTimeout: number }).disconnectTimeout);
    this.#options = options as SocketOptions;
  }

  override async connect(): Promise<Stream> {
    this.stream = openSocket(this.#options);
    return this.stream;
  }
}

/**
 * Returns a class that connects ioredis to the primary. It looks the primary up for each connection. If `connect` rejected,
 * ioredis would never try again. So a failed lookup resolves with a closed socket: ioredis then reports `firstError` and
 * tries again, unless `disconnect()` was called.
 */
export function connectorTo(lookup: PrimaryLookup): new (options: unknown) => AbstractConnector {
  return class extends AbstractConnector {
    #emit: ErrorEmitter = () => {};
    #at = "";
    #attempt = new AbortController();
    #deadline: NodeJS.Timeout | undefined;

    constructor(options: unknown) {
      super((options as { disconnectTimeout: number }).disconnectTimeout);
    }

    override async connect(emit: ErrorEmitter): Promise<Stream> {
      this.#emit = emit;
      delete this.firstError;
      const attempt = new AbortController();
      this.#attempt = attempt;
      try {
        const primary = await findPrimary(lookup, attempt.signal);
        attempt.signal.throwIfAborted();
        this.stream = this.#open(reachable(lookup, primary));
      } catch (error) {
        if (!attempt.signal.aborted) this.firstError = error as Error;
        this.stream = new Socket().destroy();
      }
      attempt.abort(); // ends the requests to servers that have not answered yet
      return this.stream;
    }

    #open({ host, port }: ServerAddress): Stream {
      this.#at = addressText({ host, port });
      const socket = openSocket({ host, port, ...loginOptions(lookup, host) });
      const reason = `${this.#at} was not ready within ${OPEN_MS} ms`;
      this.#deadline = setTimeout(() => socket.destroy(new Error(reason)), OPEN_MS);
      socket.once("close", () => clearTimeout(this.#deadline));
      return socket;
    }

    /** Refuses a server that is a replica. ioredis calls this with the server's INFO, before it uses the connection. */
    override check({ role }: { role?: string }): boolean {
      clearTimeout(this.#deadline);
      if (role === undefined || role === "master") return true;
      this.#emit("error", new Error(`${this.#at} was named as the primary, but is a replica`));
      return false;
    }

    override disconnect(): void {
      this.#attempt.abort();
      if (this.stream?.destroyed === false) super.disconnect();
    }
  };
}

/**
 * Converts TLS settings for Node. As the name for SNI, the server gets `serverName`, or otherwise the host if it is not an IP
 * address.
 */
export function tlsOptions({ ca, cert, key, serverName }: TlsSettings, host = ""): ConnectionOptions {
  const servername = serverName ?? (isIP(host) === 0 ? host : "");
  return {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key: key.reveal() }),
    ...(servername !== "" && { servername }),
  };
}

/**
 * Finds the primary. With sentinels, it is the address that a majority of them names. With a Cluster, it is the address that
 * the nodes name most often. If no address has enough votes, throws an error with the answers of all servers.
 */
export async function findPrimary(lookup: PrimaryLookup, ended: AbortSignal): Promise<ServerAddress> {
  const { servers, kind } = lookup.finder;
  const votes = new Map<string, ServerAddress[]>();
  const failures: string[] = [];
  const isMajority = (named: readonly ServerAddress[]): boolean => named.length > servers.length / 2;

  return new Promise((resolve, reject) => {
    ended.addEventListener("abort", () => reject(new Error("ended")), { once: true });
    const askOne = async (server: ServerAddress): Promise<void> => {
      try {
        const primary = await askForPrimary(server, lookup, ended);
        const named = [...(votes.get(addressText(primary)) ?? []), primary];
        votes.set(addressText(primary), named);
        if (isMajority(named)) resolve(primary);
      } catch (error) {
        failures.push(`${addressText(server)}: ${messageOf(error)}`);
      }
    };
    void Promise.all(servers.map(askOne)).then(() => {
      const [most] = [...votes.values()].sort((one, other) => other.length - one.length);
      if (kind === "nodes" && most?.[0] !== undefined) return resolve(most[0]);
      const named = [...votes].map(([name, { length }]) => `${length} of ${servers.length} name ${name}`);
      reject(new Error(`${UNKNOWN[kind]} (${[...named, ...failures].join("; ")})`));
    });
  });
}

const UNKNOWN: Readonly<Record<Finder["kind"], string>> = {
  sentinels: "no majority of the sentinels names the primary",
  nodes: "no node of the cluster names the primary",
};

/** Asks a sentinel or a node for the address of the primary. Throws the reason if it does not name one. */
function askForPrimary(
  server: ServerAddress,
  lookup: PrimaryLookup,
  ended: AbortSignal,
): Promise<ServerAddress> {
  const { finder } = lookup;
  return finder.kind === "sentinels"
    ? ask(server, finder.login, ended, (redis) => askSentinel(redis, finder.masterName))
    : ask(server, lookup, ended, (redis) => askNode(redis, finder.key, server));
}

/** Returns the address under which this process can reach a server. Other servers may know it by another address. */
function reachable({ natMap }: PrimaryLookup, server: ServerAddress): ServerAddress {
  return natMap?.[addressText(server)] ?? server;
}

/** Sends a question to a server over a new connection. Throws the reason if there is no answer in time. */
export type AskServer = <Answer>(
  server: ServerAddress,
  question: (redis: Redis) => Promise<Answer>,
) => Promise<Answer>;

/**
 * Creates the function that asks a server, with the deployment's login. Callers may pass an address that another server
 * reports, because `natMap` is applied to it.
 */
export function createAskServer(lookup: PrimaryLookup, ended: AbortSignal): AskServer {
  return (server, question) => ask(reachable(lookup, server), lookup, ended, question);
}

/** Asks a server over a new connection. Throws the reason if there is no answer in time. */
export async function ask<Answer>(
  server: ServerAddress,
  login: Login,
  ended: AbortSignal,
  question: (redis: Redis) => Promise<Answer>,
): Promise<Answer> {
  const redis = new Redis({
    ...server,
    ...loginOptions(login, server.host),
    Connector: ServerConnector,
    lazyConnect: true,
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: null,
    maxRetriesPerRequest: 0,
    connectTimeout: ASK_MS,
    commandTimeout: ASK_MS,
    disconnectTimeout: 100,
  });
  let reason: unknown;
  redis.on("error", (error) => {
    reason ??= error;
  });
  const end = (): void => redis.disconnect();
  ended.addEventListener("abort", end, { once: true });
  const outcome = await within(
    ASK_MS,
    redis.connect().then(() => question(redis)),
  );
  ended.removeEventListener("abort", end);
  end();
  if (outcome.kind === "done") return outcome.result;
  throw outcome.kind === "failed" ? (reason ?? outcome.error) : new Error(`no answer within ${ASK_MS} ms`);
}

/** Converts the user, password and TLS settings of a connection to options of ioredis. */
export function loginOptions(
  { username, password, tls }: Login,
  host?: string,
): Pick<RedisOptions, "username" | "password" | "tls"> {
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password: password.reveal() }),
    ...(tls !== undefined && { tls: tlsOptions(tls, host) }),
  };
}

async function askSentinel(redis: Redis, masterName: string): Promise<ServerAddress> {
  const address = await redis.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName);
  if (!Array.isArray(address)) throw new Error(`it knows no master ${masterName}`);
  return { host: String(address[0]), port: Number(address[1]) };
}

async function askNode(redis: Redis, key: string, { host }: ServerAddress): Promise<ServerAddress> {
  const [info, slot, ranges] = await Promise.all([
    redis.cluster("INFO"),
    redis.cluster("KEYSLOT", key),
    redis.cluster("SLOTS"),
  ]);
  if (!info.includes("cluster_state:ok")) throw new Error("its cluster_state is not ok");
  const [, , owner] = ranges.find(([first, last]) => first <= slot && slot <= last) ?? [];
  if (owner === undefined) throw new Error(`no node has slot ${slot}`);
  const [named, port] = owner;
  // A node that does not know its own host leaves it out. It then means itself, so the host that was asked is the right one.
  return { host: ["", "?"].includes(named ?? "") ? host : named, port };
}

/** Returns whether ioredis looks up the primary each time it reconnects. */
export function findsPrimary(redis: Redis): boolean {
  const { Connector } = redis.options;
  return Connector !== undefined && Connector !== ServerConnector;
}

/** Parses `host:port`. An IPv6 address may have brackets, as from `addressText`, or none, as from a Cluster node. */
export function parseAddress(text: string): ServerAddress {
  const at = text.lastIndexOf(":");
  return { host: text.slice(0, at).replace(/^\[(.*)\]$/, "$1"), port: Number(text.slice(at + 1)) };
}

/** Returns the address of the connected server, or the path of its socket; null while it is unknown. */
export function addressOf(redis: Redis): string | null {
  const { path, host = "", port = 0 } = redis.options;
  if (!findsPrimary(redis)) return path ?? addressText({ host, port });
  const { remoteAddress, remotePort } = redis.stream ?? {};
  if (remoteAddress === undefined || remotePort === undefined) return null;
  return addressText({ host: remoteAddress, port: remotePort });
}

/** Formats `host:port`, with an IPv6 address in brackets. */
export function addressText({ host, port }: ServerAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
