import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { type AppError, RETRY_AFTER_MS, stackOf } from "../platform/errors/app-error.ts";
import { CODES, type ErrorCode } from "../platform/errors/codes.ts";
import type { Fields, Logger } from "../platform/log/logger.ts";
import { tracer } from "../platform/traces/tracer.ts";
import { COMMON_HEADERS } from "./answer.ts";
import { leaveUnread } from "./body.ts";

type Extra = {
  /** Overrides the code's status, for a sender that would misinterpret it. */
  status?: number;
  headers?: Readonly<Record<string, string>>;
  /** Additional members of the problem document. */
  members?: Readonly<Record<string, unknown>>;
};

/**
 * Answers with a problem document (RFC 9457): `type`, `title`, `status`, `detail`, `code`, and `error`, which repeats
 * the detail. The rest of the request's body is not read.
 */
export function sendProblem(
  req: IncomingMessage,
  res: ServerResponse,
  error: AppError,
  extra: Extra = {},
): void {
  if (res.headersSent || res.destroyed) return;
  const { status = CODES[error.code].status } = extra;
  if (status >= 500) tracer?.current()?.fail(error.code);
  else tracer?.current()?.set({ "error.type": error.code });
  const body = problemBody(error.code, error.publicDetail, { status, ...extra.members });
  leaveUnread(req, res);
  res.writeHead(status, STATUS_CODES[status], {
    ...COMMON_HEADERS,
    "Content-Type": "application/problem+json",
    "Content-Length": Buffer.byteLength(body),
    ...retryAfter(error, status),
    ...error.headers,
    ...extra.headers,
  });
  res.end(body);
}

export function problemBody(code: ErrorCode, detail: string, members?: Extra["members"]): string {
  const { status, title } = CODES[code];
  return JSON.stringify({
    type: `urn:postern:problem:${code}`,
    title,
    status,
    detail,
    code,
    error: detail,
    ...members,
  });
}

function retryAfter(error: AppError, status: number): Record<string, string> {
  const ms = error.retryAfterMs ?? (status === 503 ? RETRY_AFTER_MS : undefined);
  return ms === undefined ? {} : { "Retry-After": String(Math.max(1, Math.ceil(ms / 1000))) };
}

/** Logs a refusal after its answer, with the internal reason. An unforeseen error also gets its stack. */
export function logRefused(log: Logger, event: string, error: AppError, fields: Fields): void {
  const { status } = CODES[error.code];
  const stack = stackOf(error);
  log[status >= 500 ? "error" : "warn"](event, {
    ...fields,
    code: error.code,
    status,
    reason: error.message,
    ...(stack !== undefined && { stack }),
  });
}
