import type { Redis, RedisOptions } from "ioredis";
import type { Secret } from "../crypto/secret.ts";
import { messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import { BatchingRedis } from "./batching-redis.ts";

export type { Redis } from "ioredis";

const RECONNECT_MS_MAX = 1000;

const always = {
  connectTimeout: 2000,
  keepAlive: 10_000,
  retryStrategy: (attempt: number) =>
    Math.min(50 * 2 ** attempt, RECONNECT_MS_MAX) * (0.5 + Math.random() / 2),
} satisfies RedisOptions;

/**
 * For code that answers a caller: while Redis is away, commands fail at once instead of queueing up, and a command whose
 * reply is lost is not sent again behind the caller's back.
 */
export function connectForRequests(url: Secret, log: Logger): Redis {
  const redis = new BatchingRedis(url.reveal(), {
    ...always,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    commandTimeout: 1500,
    // ioredis waits this long for the end of a socket, even of one that never opened, and the process with it.
    disconnectTimeout: 500,
    reconnectOnError: (error) => error.message.includes("READONLY"),
  });
  return logged(redis, log);
}

/** For workers: commands wait for Redis to return. Safe to resend only because every id is deterministic. */
export function connectForWork(url: Secret, log: Logger): Redis {
  const redis = new BatchingRedis(url.reveal(), {
    ...always,
    maxRetriesPerRequest: null,
    reconnectOnError: (error) => (error.message.includes("READONLY") ? 2 : false),
  });
  return logged(redis, log);
}

/** One line when Redis goes and one when it is back, instead of one per attempt to reconnect. */
function logged(redis: Redis, log: Logger): Redis {
  let reachable: boolean | undefined;
  redis.on("ready", () => {
    if (reachable === false) log.info("redis.returned");
    reachable = true;
  });
  redis.on("error", (error: Error) => {
    if (reachable !== false) log.warn("redis.lost", { reason: messageOf(error) });
    reachable = false;
  });
  return redis;
}
