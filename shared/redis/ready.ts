import type { Redis } from "ioredis";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { failureOf, unlessRedis } from "./failure.ts";

/** Throws `queue.unavailable` if a command would have to wait for a connection. */
export function assertReady({ status }: Redis): void {
  if (status !== "ready")
    throw new AppError("queue.unavailable", { reason: "there is no connection to Redis" });
}

/**
 * Resolves once commands can be sent. Throws `queue.denied` as soon as Redis denies the connection, and `queue.unavailable`
 * with Redis' last error if it takes too long.
 */
export function whenReady(redis: Redis, deadlineMs: number): Promise<void> {
  if (redis.status === "ready") return Promise.resolve();
  return new Promise((resolve, reject) => {
    let last: unknown;
    const onError = (error: unknown): void => {
      if (failureOf(error) === "denied") settle(() => reject(unlessRedis(error)));
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
