import { type Command, Redis, type RedisOptions } from "ioredis";
import type { Secret } from "../crypto/secret.ts";
import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import { BATCH_MAX } from "./batcher.ts";

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

type WriteableStream = Parameters<Redis["sendCommand"]>[1];

/**
 * A connection whose commands of one turn of the event loop leave in few writes: each write is a system call, which costs
 * more than most commands. Order, replies and failures are those of the commands sent singly, unlike auto-pipelining,
 * which holds commands back until the batch before them is answered.
 */
class BatchingRedis extends Redis {
  #held = 0;
  #release: (() => void) | undefined;

  override sendCommand(command: Command, stream?: WriteableStream): unknown {
    this.#release ??= this.#hold();
    const reply = super.sendCommand(command, stream);
    this.#held += 1;
    if (this.#held === BATCH_MAX) this.#release?.();
    return reply;
  }

  /** Holds back what is written to the socket of now until the turn ends or the batch is full. */
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

/** Resolves once commands can be sent; throws `queue.unavailable` with Redis' last complaint when that takes longer. */
export function whenReady(redis: Redis, deadlineMs: number): Promise<void> {
  if (redis.status === "ready") return Promise.resolve();
  return new Promise((resolve, reject) => {
    let last: unknown;
    const onError = (error: unknown): void => {
      last = error;
    };
    const onReady = (): void => settle(resolve);
    const timer = setTimeout(() => {
      const reason = last === undefined ? `no answer within ${deadlineMs} ms` : messageOf(last);
      settle(() => reject(new AppError("queue.unavailable", { reason, cause: last })));
    }, deadlineMs);
    function settle(outcome: () => void): void {
      clearTimeout(timer);
      redis.off("error", onError);
      redis.off("ready", onReady);
      outcome();
    }
    redis.on("error", onError);
    redis.on("ready", onReady);
  });
}
