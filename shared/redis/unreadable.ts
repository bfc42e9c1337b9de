import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";

/** How the error of a script begins that found under a key what no process writes there. It has changed nothing. */
const UNREADABLE = "UNREADABLE ";
/** Begins the error of Redis for a key that holds another type. */
const WRONG_TYPE = "WRONGTYPE ";

/** The error of a process that finds damaged or foreign data. It leaves the data as it is, for an operator. */
export function unreadable(what: string, cause?: unknown): AppError {
  const reason = `${what} cannot be read, and is left as it is`;
  return new AppError("record.unreadable", { reason, retryAfterMs: 60_000, cause });
}

export function isUnreadable(error: unknown): boolean {
  return error instanceof AppError && error.code === "record.unreadable";
}

/** Handles the rejection that says that what is stored cannot be read; throws any other. */
export function unlessUnreadable(error: unknown): undefined {
  if (!isUnreadable(error)) throw error;
}

/** For a rejected read: throws `record.unreadable` if it has found damaged data, else `queue.unavailable` with this reason. */
export function readFailed(reason: string): (cause: unknown) => never {
  return (cause) => {
    const known = fromScript(cause);
    if (known instanceof AppError) throw known;
    throw new AppError("queue.unavailable", { reason, retryAfterMs: RETRY_AFTER_MS, cause });
  };
}

/** `record.unreadable` if the script refused what it found; any other error as it is. */
export function fromScript(error: unknown): unknown {
  const [message] = messageOf(error).split(" script: ");
  if (message?.startsWith(UNREADABLE)) return unreadable(message.slice(UNREADABLE.length), error);
  return message?.startsWith(WRONG_TYPE) ? unreadable(`a key of another type (${message})`, error) : error;
}
