import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";

/**
 * Prefix of the error with which a script stops if a key holds data that Postern never writes there. The script has changed
 * nothing.
 */
const UNREADABLE = "UNREADABLE ";
/** Prefix of Redis's error for a key of another type. */
const WRONG_TYPE = "WRONGTYPE ";

/** Creates the error for damaged or foreign data. The process does not change this data, so that an operator can examine it. */
export function unreadable(what: string, cause?: unknown): AppError {
  const reason = `${what} cannot be read, and is left as it is`;
  return new AppError("record.unreadable", { reason, retryAfterMs: 60_000, cause });
}

export function isUnreadable(error: unknown): boolean {
  return error instanceof AppError && error.code === "record.unreadable";
}

/** Ignores a rejection which says that stored data cannot be read; throws any other. */
export function unlessUnreadable(error: unknown): undefined {
  if (!isUnreadable(error)) throw error;
}

/**
 * Creates the handler of a failed read. If the data is damaged, it throws `record.unreadable`. Otherwise it throws
 * `queue.unavailable` with this reason.
 */
export function readFailed(reason: string): (cause: unknown) => never {
  return (cause) => {
    const known = fromScript(cause);
    if (known instanceof AppError) throw known;
    throw new AppError("queue.unavailable", { reason, retryAfterMs: RETRY_AFTER_MS, cause });
  };
}

/**
 * Converts an error of a script to `record.unreadable`, if the script could not read the data that it found. Returns any
 * other error unchanged.
 */
export function fromScript(error: unknown): unknown {
  const [message] = messageOf(error).split(" script: ");
  if (message?.startsWith(UNREADABLE)) return unreadable(message.slice(UNREADABLE.length), error);
  return message?.startsWith(WRONG_TYPE) ? unreadable(`a key of another type (${message})`, error) : error;
}
