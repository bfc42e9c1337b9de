import type { Logger } from "../platform/log/logger.ts";
import {
  connectForRequests,
  connectForWork,
  inItsDatabase,
  type Redis,
  type RedisTarget,
} from "../redis/connect.ts";

/**
 * Purpose of a connection. A connection for answering requests must fail fast while Redis is away. A connection for doing work
 * must wait.
 */
export type Need = "requests" | "work";

export type Connection = { readonly redis: Redis; close(): void };

type Settings = Readonly<Record<string, unknown>>;
/** A setting that a connection must have, as the user writes it, and the check of its value. */
type Rule = readonly [setting: string, isGood: (value: unknown) => boolean];

const COMMANDS_MS_MAX = 10_000;

const RULES: Readonly<Record<Need, readonly Rule[]>> = {
  requests: [
    ["enableOfflineQueue: false", (value) => value === false],
    ["maxRetriesPerRequest: 0", (value) => value === 0],
    ["autoResendUnfulfilledCommands: false", (value) => value === false],
    ["commandTimeout: 1500", (value) => typeof value === "number" && value > 0 && value <= COMMANDS_MS_MAX],
  ],
  work: [
    ["maxRetriesPerRequest: null", (value) => value === null],
    ["enableOfflineQueue: true", (value) => value !== false],
    ["autoResendUnfulfilledCommands: true", (value) => value !== false],
  ],
};

const WHY: Readonly<Record<Need, string>> = {
  requests: "requests are answered while Redis is unavailable, and no write is sent twice",
  work: "calls wait until Redis is available again",
};

/** @internal Returns the reason why a part cannot use this value as its connection. Undefined if it can. */
export function redisProblem(redis: unknown, need: Need): string | undefined {
  if (!isConnection(redis))
    return "must be an ioredis connection; set a URL, sentinels or nodes in redis of postern";
  const { options } = redis;
  // With sentinels, ioredis may stop reconnecting for good.
  if (options["sentinels"]) return "must have no sentinels: set sentinels in redis of postern";
  if (options["keyPrefix"]) return "must have no keyPrefix: all parts must use the same keys";
  const wrong = RULES[need].filter(([setting, isGood]) => !isGood(options[nameOf(setting)]));
  if (wrong.length === 0) return undefined;
  return `must be created with ${wrong.map(([setting]) => setting).join(", ")}, so that ${WHY[need]}`;
}

/** @internal Returns the host program's connection, which `close` does not close, or opens a connection to `target`. */
export function openConnection(
  redis: Redis | undefined,
  target: RedisTarget,
  need: Need,
  log: Logger,
): Connection {
  if (redis !== undefined) {
    inItsDatabase(redis);
    if (redis.status === "wait") redis.connect().catch(() => {}); // With lazyConnect, a connection is opened only by this call.
    // If the connection is already open, Redis may have refused its SELECT, and ioredis would continue in database 0. So the
    // database is selected again, and a refusal closes and reopens the connection.
    if (redis.status === "ready" && redis.options.db)
      redis.select(redis.options.db).catch(() => redis.disconnect(true));
    return { redis, close() {} };
  }
  const own = need === "requests" ? connectForRequests(target, log) : connectForWork(target, log);
  return { redis: own, close: () => own.disconnect() };
}

function nameOf(setting: string): string {
  return setting.slice(0, setting.indexOf(":"));
}

/** Whether this is an ioredis connection to one server. A Cluster client is not, and neither is a client of another library. */
function isConnection(redis: unknown): redis is { options: Settings } {
  if (typeof redis !== "object" || redis === null) return false;
  const { options, duplicate, call, isCluster } = redis as Settings;
  return (
    typeof options === "object" &&
    options !== null &&
    typeof duplicate === "function" &&
    typeof call === "function" &&
    isCluster !== true
  );
}
