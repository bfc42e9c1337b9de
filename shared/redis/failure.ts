import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";

/**
 * Why a command failed.
 *  - `unsent`: ioredis had no connection to send it on.
 *  - `lost`: the connection broke, no reply came in time, or replicas have not confirmed a write.
 *  - `failover`: Redis refused it for a short time, for example during a failover or while it loads its data.
 *  - `full`: Redis has no memory or no disk for it, until space is freed.
 *  - `denied`: Redis does not permit it to this process, until an operator changes a setting.
 */
export type RedisFailure = "unsent" | "lost" | "failover" | "full" | "denied";

/**
 * Patterns of the error texts of ioredis and Redis, with the kind of failure that they mean. The first pattern that matches
 * counts.
 */
const MESSAGES: readonly (readonly [RedisFailure, RegExp])[] = [
  ["unsent", /enableOfflineQueue|isn't writeable/],
  [
    "lost",
    /Connection is closed|aborted due to connection close|Command timed out|max retries per request|ECONN|ETIMEDOUT|EPIPE/,
  ],
  ["failover", /^-?(?:READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|TRYAGAIN|BUSY)\b/],
  ["full", /^-?(?:OOM|MISCONF)\b/],
  [
    "denied",
    /^-?(?:NOPERM|NOAUTH|WRONGPASS|MOVED|ASK)\b|^-?ERR (?:DB index|.*\bnot allowed|The user executing the script can't|ACL failure in script|Unknown \w*\s*command)/i,
  ],
];

/**
 * Matches the error of a script whose user lacks the right to one of its commands. The script stops at that command, and its
 * earlier writes stay, so it may have changed something.
 */
const WITHIN_SCRIPT = /\bscript\b/i;

const passing = new WeakSet<Error>();

/**
 * Marks an error as the consequence of a failover: the server is no longer the primary, and the connection looks up the new
 * one.
 */
export function notePassing(error: Error): Error {
  passing.add(error);
  return error;
}

/** Returns the kind of failure; undefined if the error is not a known failure of Redis. */
export function failureOf(error: unknown): RedisFailure | undefined {
  if (error instanceof AppError) return error.code === "queue.outcome_unknown" ? "lost" : undefined;
  if (error instanceof Error && passing.has(error)) return "failover";
  const message = messageOf(error);
  return MESSAGES.find(([, said]) => said.test(message))?.[0] ?? (isOfSelect(error) ? "denied" : undefined);
}

/** Returns whether the error shows that the command has changed nothing. */
export function isUnwritten(error: unknown): boolean {
  const failure = failureOf(error);
  if (error instanceof AppError) return failure === undefined;
  if (failure === "denied") return !WITHIN_SCRIPT.test(messageOf(error));
  return failure !== undefined && failure !== "lost";
}

/**
 * Returns whether the same command would fail again until an operator changes a setting or space is freed. Repeating it is
 * then useless.
 */
export function isLasting(error: unknown): boolean {
  if (error instanceof AppError) return error.code === "queue.denied";
  const failure = failureOf(error);
  return failure === "denied" || failure === "full";
}

/**
 * Converts a known failure of Redis to an error with the code `queue.denied` or `queue.unavailable`. Returns any other error
 * unchanged.
 */
export function unlessRedis(error: unknown): unknown {
  const failure = failureOf(error);
  if (failure === undefined || error instanceof AppError) return error;
  if (failure === "denied") return deniedAs("queue.denied", error);
  return new AppError("queue.unavailable", {
    reason: messageOf(error),
    retryAfterMs: RETRY_AFTER_MS,
    cause: error,
  });
}

/** Describes what Redis denies, and how to fix it. */
export function deniedAs(code: "queue.denied" | "start.redis_denied", cause: unknown): AppError {
  const message = messageOf(cause);
  const [what, remedy] = whatIsDenied(message, cause);
  return new AppError(code, {
    reason: `${what} (${message}). To fix this, ${remedy}.`,
    retryAfterMs: 5000,
    cause,
  });
}

function whatIsDenied(message: string, cause: unknown): readonly [what: string, remedy: string] {
  if (isOfSelect(cause))
    return [
      "Redis denies the database in [redis] url",
      "set an existing database in [redis] url, and allow SELECT to its user",
    ];
  if (/^-?(?:NOAUTH|WRONGPASS)/.test(message))
    return [
      "Redis denies the user or the password",
      "set the right user and password in [redis] url, or in username and password",
    ];
  if (/^-?(?:MOVED|ASK)/.test(message))
    return ["Redis is a cluster node that does not hold the keys", "set [redis] nodes instead of url"];
  if (/^-?ERR unknown/i.test(message))
    return [
      "Redis lacks a command that Postern needs",
      "install Redis 7.0 or newer, or Valkey, with all commands enabled",
    ];
  return [
    "Redis denies this user a right that Postern needs",
    "grant the rights that `postern redis-acl` prints for this process",
  ];
}

/** Returns whether the failed command was SELECT, which ioredis sends first on a connection to choose the database. */
export function isOfSelect(error: unknown): boolean {
  return (error as { command?: { name?: string } } | undefined)?.command?.name === "select";
}
