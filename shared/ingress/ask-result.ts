import type { IncomingMessage } from "node:http";
import type { CallStatus } from "../call/results/store.ts";
import { createResultTokens, type ResultTokens } from "../call/results/token.ts";
import { onlyHeaderValue, rawQuery } from "../http/headers.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { toFailure } from "./send-result.ts";

/** Whether a request proves the right to the result of this call. It reads nothing of the call. */
export type Proves = (req: IncomingMessage, callId: string) => Promise<boolean>;

/** The tokens of these secrets; undefined without any, so that none is good. */
export function tokensOf([first, ...more]: readonly Secret[]): ResultTokens | undefined {
  return first && createResultTokens([first, ...more]);
}

/** The proof by token: in `Authorization: Bearer`, or as the query's `token`, which makes a link. */
export function createProvesByToken(tokens: ResultTokens | undefined): Proves {
  return async (req, callId) =>
    tokens !== undefined && tokensIn(req).some((token) => tokens.isOf(callId, token));
}

/** RFC 6750: the scheme is case-insensitive. */
function tokensIn(req: IncomingMessage): string[] {
  const header = onlyHeaderValue(req, "authorization");
  const bearer = "value" in header ? /^bearer +(\S+)$/i.exec(header.value)?.[1] : undefined;
  const [token, ...more] = new URLSearchParams(rawQuery(req.url ?? "")).getAll("token");
  return [bearer, more.length === 0 ? token : undefined].filter((each) => each !== undefined);
}

/** Members of a 202 by which its reader asks for the result later. */
export type ResultAccess = { result_token: string; result_url: string };

/** What of a call's status is only for who has proven a right to it. */
export function toProvenStatus({ changedAt, attempts, result }: CallStatus) {
  const isFailure = result.kind === "failed" || result.kind === "failure";
  const progress = result.kind === "pending" ? result.progress : undefined;
  return {
    changed_at: changedAt,
    attempts,
    ...(isFailure && { failure: toFailure(result) }),
    ...(progress && { progress: JSON.parse(progress.json) as unknown, progress_at: progress.at }),
  };
}
