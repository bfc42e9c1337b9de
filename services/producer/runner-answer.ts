import { AppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import { parseRetryAfter } from "../../shared/http/headers.ts";

export type RunnerAnswer = {
  status: number;
  /** As sent, if it was. */
  retryAfter: string | undefined;
  /** The first of the answer's body, for the operator. */
  excerpt: string;
};

/** Resolves what a runner's answer means: nothing for 2xx, else the error that says what becomes of the call. */
export function readAnswer({ status, retryAfter, excerpt }: RunnerAnswer, now: number): AppError | undefined {
  if (status >= 200 && status < 300) return undefined;
  const retryAfterMs = parseRetryAfter(retryAfter, now);
  const reason = excerpt === "" ? `${status}` : `${status} ${excerpt}`;
  return new AppError(codeOf(status, retryAfterMs), {
    reason,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

function codeOf(status: number, retryAfterMs: number | undefined): ErrorCode {
  if (status === 429) return "runner.throttled";
  if (status === 409 && retryAfterMs !== undefined) return "runner.busy";
  if (status === 408 || status === 409 || status === 425) return "runner.failed";
  return status >= 400 && status < 500 ? "runner.refused" : "runner.failed";
}
