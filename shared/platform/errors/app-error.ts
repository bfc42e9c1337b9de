import { CODES, type ErrorCode } from "./codes.ts";

type Details = {
  /** For operators: goes to the log, never to a caller. */
  reason: string;
  /** For callers; without it they get the code's title. */
  publicDetail?: string;
  /** After this long the same attempt may succeed. */
  retryAfterMs?: number;
  cause?: unknown;
};

/** Time until a retry, if nothing better is known: a moment, such as a failover or a restart. */
export const RETRY_AFTER_MS = 2000;

/** A failure with a stable code, which decides the HTTP status and what a producer does next. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly publicDetail: string;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, { reason, publicDetail, retryAfterMs, ...rest }: Details) {
    super(reason, rest);
    this.code = code;
    this.publicDetail = publicDetail ?? CODES[code].title;
    this.retryAfterMs = retryAfterMs;
  }

  /** A failure whose reason the caller may read as it stands. */
  static public(
    code: ErrorCode,
    detail: string,
    rest: Omit<Details, "reason" | "publicDetail"> = {},
  ): AppError {
    return new AppError(code, { reason: detail, publicDetail: detail, ...rest });
  }
}

/** Where an unforeseen error comes from. Only that needs its stack: every other error is explained by its code. */
export function stackOf(error: AppError): string | undefined {
  if (error.code !== "internal.unexpected") return undefined;
  return (error.cause instanceof Error ? error.cause : error).stack;
}

/** Anything thrown as an AppError; an unforeseen error is `internal.unexpected`. */
export function toAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  return new AppError("internal.unexpected", { reason: messageOf(thrown), cause: thrown });
}

export function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const nested = thrown instanceof AggregateError ? thrown.errors.map(messageOf).join("; ") : "";
  return thrown.message || nested || thrown.name;
}
