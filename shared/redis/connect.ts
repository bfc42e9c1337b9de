import { type Command, Redis, type RedisOptions } from "ioredis";
import type { Secret } from "../platform/crypto/secret.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import { connectorTo, type Login, loginOptions, type PrimaryLookup, ServerConnector } from "./connector.ts";
import { isOfSelect, notePassing } from "./failure.ts";
import { confirmedKeyOf } from "./keys.ts";
import { proverOf, proveWith } from "./prover.ts";
import { ReplicaWatch } from "./replica-watch.ts";
import { LANE_TIMEOUT_MS, ReplicatedWrites } from "./replicated-writes.ts";

export type { Redis } from "ioredis";

const RECONNECT_MS_MAX = 1000;

const COMMON = {
  connectTimeout: 2000,
  keepAlive: 10_000,
  disableClientInfo: true, // ioredis would send CLIENT SETINFO, and the right to it exists only on newer servers
  retryStrategy: (attempt: number) =>
    Math.min(50 * 2 ** attempt, RECONNECT_MS_MAX) * (0.5 + Math.random() / 2),
} satisfies RedisOptions;

/**
 * A Redis to connect to. It is given by its URL, which may contain user and password, or by other servers that name its
 * address (sentinels, or nodes of a Cluster).
 */
export type RedisTarget = (Login & { readonly url: Secret }) | PrimaryLookup;

/**
 * Connects for code that answers a client. While Redis is away, commands fail at once instead of waiting. If the reply to a
 * command is lost, ioredis does not send the command again: it fails, and the caller decides whether to repeat it.
 */
export function connectForRequests(target: RedisTarget, log: Logger): Redis {
  return confirmedByReplicas(
    open(target, { ...COMMON, ...failsFast(target), commandTimeout: 1500 }, log),
    target,
    {
      waits: false,
    },
  );
}

const failsFast = (target: RedisTarget) =>
  ({
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    // ioredis waits this long for a socket to end, even for one that never opened, and keeps the process alive until then.
    disconnectTimeout: 500,
    reconnectOnError: (error: Error) => isOfOtherPrimary(error, target),
  }) satisfies RedisOptions;

/**
 * Connects for workers. While Redis is away, commands wait until it returns. If the connection breaks before the reply, the
 * command is sent again, so Redis may run it twice. This is safe only because every id is deterministic: the second command
 * names the same call, not a new one.
 */
export function connectForWork(target: RedisTarget, log: Logger): Redis {
  const options = {
    ...COMMON,
    maxRetriesPerRequest: null,
    reconnectOnError: (error: Error) => (isOfOtherPrimary(error, target) ? (2 as const) : false),
  };
  return confirmedByReplicas(open(target, options, log), target, { waits: true });
}

/**
 * Makes all replicas confirm the writes of scripts on this connection, if the deployment requires it (durability
 * `replicated`).
 */
function confirmedByReplicas(redis: Redis, target: RedisTarget, { waits }: { waits: boolean }): Redis {
  if (!("finder" in target) || target.confirmed === undefined) return redis;
  const { minReplicas, prefix } = target.confirmed;
  const lane = { ...failsFast(target), commandTimeout: LANE_TIMEOUT_MS };
  const writes = new ReplicatedWrites({
    watch: new ReplicaWatch(target, minReplicas),
    openLane: () => connectBeside(redis, lane),
    key: confirmedKeyOf(prefix),
    waits,
  });
  proveWith(redis, writes);
  redis.once("end", () => writes.close());
  return redis;
}

function open(
  target: RedisTarget,
  options: Omit<RedisOptions, "protocol" | "replyMapping">,
  log: Logger,
): Redis {
  const login = loginOptions(target);
  if ("finder" in target)
    return logged(new BatchingRedis({ ...options, ...login, Connector: connectorTo(target) }), log);
  const url = target.url.reveal();
  const path = SOCKET_URL.exec(url)?.[1];
  const all = { ...options, ...login, Connector: ServerConnector };
  const redis = path === undefined ? new BatchingRedis(url, all) : new BatchingRedis({ ...all, path });
  return logged(inItsDatabase(redis), log);
}

/** `unix:///run/redis.sock` */
const SOCKET_URL = /^unix:\/\/(\/.*)$/s;

/**
 * Returns whether the error says that the server is not, or no longer, the primary. ioredis then reconnects. A connection
 * that looks up its primary looks it up again before that.
 */
function isOfOtherPrimary(error: Error, target: RedisTarget): boolean {
  if (!("finder" in target)) return error.message.includes("READONLY");
  if (!/^-?(?:READONLY|MOVED|ASK|CLUSTERDOWN|UNBLOCKED)\b/.test(error.message)) return false;
  notePassing(error);
  return true;
}

/**
 * Opens a second connection to the same Redis, with other options. Its errors are not logged, because the first connection
 * already logs when this Redis goes away and returns.
 */
export function connectBeside(redis: Redis, options: RedisOptions): Redis {
  const beside = redis.duplicate(options);
  beside.on("error", () => {});
  proveWith(beside, proverOf(redis));
  return inItsDatabase(beside);
}

/**
 * Closes a connection whose SELECT is refused, before any other command is sent on it. Otherwise ioredis would continue in
 * database 0, which may belong to another deployment.
 */
export function inItsDatabase(redis: Redis): Redis {
  redis.on("error", (error: Error) => {
    if (isOfSelect(error)) redis.disconnect(true);
  });
  return redis;
}

/**
 * Number of listeners above which Node warns of a leak. It is higher than Node's default: during a reload, both the old and
 * the new configuration of a process part listen on the same connection.
 */
const LISTENERS_MAX = 30;

/** Logs one line when Redis goes away and one when it returns, instead of one for each attempt to reconnect. */
function logged(redis: Redis, log: Logger): Redis {
  let reachable: boolean | undefined;
  redis.setMaxListeners(LISTENERS_MAX);
  redis.on("ready", () => {
    if (reachable === false) log.info("redis.reconnected");
    reachable = true;
  });
  redis.on("error", (error: Error) => {
    if (reachable !== false) log.warn("redis.unreachable", { reason: messageOf(error) });
    reachable = false;
  });
  return redis;
}

/**
 * Maximum number of commands that are sent together. Without a limit, many replies that arrive at once would cause one large
 * batch of commands. Redis would then wait while this process prepares the batch, and this process while Redis runs it.
 */
const BATCH_MAX = 16;
/** A command with this many arguments is itself a batch (batches.ts), and is sent at once. */
const LONG_WORDS = 30;

type WriteableStream = Parameters<Redis["sendCommand"]>[1];

/**
 * A connection that sends the commands of one turn of the event loop in few writes to the socket. Each write is a system
 * call, which costs more than most commands. Order, replies and failures of the commands are the same as with one write each.
 * ioredis' auto-pipelining is not used, because it delays commands until the previous batch is answered.
 */
class BatchingRedis extends Redis {
  #held = 0;
  #release: (() => void) | undefined;

  override sendCommand(command: Command, stream?: WriteableStream): unknown {
    this.#release ??= this.#hold();
    const reply = super.sendCommand(command, stream);
    this.#held += 1;
    if (this.#held === BATCH_MAX || command.args.length >= LONG_WORDS) this.#release?.();
    return reply;
  }

  /** Delays writes to the current socket until the turn of the event loop ends or the batch is full. */
  #hold(): (() => void) | undefined {
    const { stream: socket } = this;
    if (!socket?.writable) return undefined;
    const release = (): void => {
      if (this.#release !== release) return;
      this.#release = undefined;
      socket.uncork();
    };
    this.#held = 0;
    socket.cork();
    setImmediate(release);
    return release;
  }
}
