import { CODES, type ErrorCode } from "./codes.ts";

type Details = {
  /** Text for operators. It is logged and never sent to a client. */
  reason: string;
  /** Text for clients. By default, they get the code's title. */
  publicDetail?: string;
  /** Time after which the same request may succeed. */
  retryAfterMs?: number;
  /** Response headers that the client needs to send a better request. */
  headers?: Readonly<Record<string, string>>;
  cause?: unknown;
};

/** Default time until a retry. It covers short outages such as a failover or a restart. */
export const RETRY_AFTER_MS = 2000;

/** An error with a stable code. The code decides the HTTP status, and whether a producer retries. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly publicDetail: string;
  readonly retryAfterMs: number | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(code: ErrorCode, { reason, publicDetail, retryAfterMs, headers, ...rest }: Details) {
    super(reason, rest);
    this.code = code;
    this.publicDetail = publicDetail ?? CODES[code].title;
    this.retryAfterMs = retryAfterMs;
    this.headers = headers;
  }

  /** Creates an error whose reason may be sent to the client unchanged. */
  static public(
    code: ErrorCode,
    detail: string,
    rest: Omit<Details, "reason" | "publicDetail"> = {},
  ): AppError {
    return new AppError(code, { reason: detail, publicDetail: detail, ...rest });
  }
}

/**
 * Returns the stack of an unforeseen error, for the log. Undefined for all other errors, whose code and reason explain
 * them.
 */
export function stackOf(error: AppError): string | undefined {
  if (error.code !== "internal.unexpected") return undefined;
  return (error.cause instanceof Error ? error.cause : error).stack;
}

/** Converts anything thrown to an AppError. An unforeseen error becomes `internal.unexpected`. */
export function toAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  return new AppError("internal.unexpected", { reason: messageOf(thrown), cause: thrown });
}

export function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const nested = thrown instanceof AggregateError ? thrown.errors.map(messageOf).join("; ") : "";
  return thrown.message || nested || thrown.name;
}
