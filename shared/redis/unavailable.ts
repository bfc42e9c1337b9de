import { AppError, messageOf } from "../errors/app-error.ts";

/** What ioredis says of a command that it could not send, or whose answer did not come; and Redis, of one that it takes later. */
const AWAY =
  /enableOfflineQueue|isn't writeable|Connection is closed|Command timed out|max retries per request|ECONN|ETIMEDOUT|EPIPE|^(?:OOM|MISCONF|READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|BUSY) /;

/**
 * `queue.unavailable` in place of an error that says that Redis is away or refuses for now; any other as it is. What was written by then is
 * not known.
 */
export function unlessRedis(error: unknown): unknown {
  if (error instanceof AppError || !AWAY.test(messageOf(error))) return error;
  return new AppError("queue.unavailable", { reason: messageOf(error), retryAfterMs: 2000, cause: error });
}
