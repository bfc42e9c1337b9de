import type { IncomingMessage, ServerResponse } from "node:http";
import type { ResultRead } from "../call/results/store.ts";
import { COMMON_HEADERS } from "../http/answer.ts";
import { sendProblem } from "../http/problem.ts";
import { AppError, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";

type Headers = Readonly<Record<string, string>>;

/**
 * Headers of an answer that a runner gave, whose content is untrusted. A browser that shows it then runs none of its
 * scripts on the gateway's web origin. And if the user follows a link in it, the browser does not send the result's
 * URL, which may contain the token.
 */
const UNTRUSTED_HEADERS = {
  ...COMMON_HEADERS,
  "Content-Security-Policy": "sandbox; default-src 'none'",
  "Referrer-Policy": "no-referrer",
} as const;

/**
 * Sends the result of a call: the runner's answer with its status, or a problem document that explains why no result
 * exists.
 */
export function sendResult(
  req: IncomingMessage,
  res: ServerResponse,
  read: ResultRead,
  headers: Headers = {},
): void {
  if (read.kind !== "answer") {
    const members = read.kind === "failed" || read.kind === "failure" ? { failure: toFailure(read) } : {};
    sendProblem(req, res, toResultError(read), { headers, members });
    return;
  }
  const { status, contentType, body } = read;
  const isEmpty = status === 204 || status === 205;
  res.writeHead(status, {
    ...UNTRUSTED_HEADERS,
    ...(contentType !== undefined && !isEmpty && { "Content-Type": contentType }),
    ...(status !== 204 && { "Content-Length": isEmpty ? 0 : body.length }),
    ...headers,
  });
  res.end(isEmpty ? undefined : body);
}

type Unanswered = Exclude<ResultRead, { kind: "answer" }>;
type Failed = Extract<ResultRead, { kind: "failed" | "failure" }>;

/**
 * Returns the reason of a failed call, for clients. It is Postern's error code, or the status that the runner delivered
 * with its result. The runner's own text is added if there is one.
 */
export function toFailure(failed: Failed) {
  const { title, detail } = failed;
  return {
    ...(failed.kind === "failed" ? { code: failed.code } : { status: failed.status }),
    ...(title !== undefined && { title }),
    ...(detail !== undefined && { detail }),
  };
}

/** Returns the error for a call without an answer. */
export function toResultError(read: Unanswered): AppError {
  switch (read.kind) {
    case "failed":
    case "failure":
      return AppError.public("result.call_failed", read.detail ?? read.title ?? "the call failed");
    case "too_long":
      return AppError.public("result.gone", "the result was too large to keep");
    case "gone":
      return AppError.public("result.gone", "the result is no longer kept");
    case "pending":
      return AppError.public("result.pending", "the call has no result yet", {
        retryAfterMs: RETRY_AFTER_MS,
      });
    case "none kept":
      return AppError.public("result.none_kept", "this job does not keep results");
    default:
      return AppError.public("request.not_found", "no such call");
  }
}
