import type { IncomingMessage } from "node:http";
import type { CallStatus } from "../call/results/store.ts";
import { createResultTokens, type ResultTokens } from "../call/results/token.ts";
import { onlyHeaderValue, rawQuery } from "../http/headers.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { toFailure } from "./send-result.ts";

/**
 * Returns whether a request may read the result of this call. It checks only the request's token, and does not read the
 * call itself.
 */
export type MayReadResult = (req: IncomingMessage, callId: string) => Promise<boolean>;

/**
 * Creates the object that makes and checks result tokens. The first secret makes the tokens, and all secrets check
 * them. Undefined if no secret is configured; then no token is valid.
 */
export function tokensOf([first, ...more]: readonly Secret[]): ResultTokens | undefined {
  return first && createResultTokens([first, ...more]);
}

/**
 * Creates the check of a result token in `Authorization: Bearer`, or in the query parameter `token`, so that a link
 * can contain it.
 */
export function createResultTokenCheck(tokens: ResultTokens | undefined): MayReadResult {
  return async (req, callId) =>
    tokens !== undefined && tokensIn(req).some((token) => tokens.isOf(callId, token));
}

/** Reads the tokens of a request. The scheme `Bearer` is case-insensitive (RFC 6750). */
function tokensIn(req: IncomingMessage): string[] {
  const header = onlyHeaderValue(req, "authorization");
  const bearer = "value" in header ? /^bearer +(\S+)$/i.exec(header.value)?.[1] : undefined;
  const [token, ...more] = new URLSearchParams(rawQuery(req.url ?? "")).getAll("token");
  return [bearer, more.length === 0 ? token : undefined].filter((each) => each !== undefined);
}

/** Members of a 202 answer: the token and the URL with which the client reads the result later. */
export type ResultAccess = { result_token: string; result_url: string };

/** Returns the members of a call's status that only an authorized client may see. */
export function toAuthorizedStatus({ changedAt, attempts, result }: CallStatus) {
  const isFailure = result.kind === "failed" || result.kind === "failure";
  const progress = result.kind === "pending" ? result.progress : undefined;
  return {
    changed_at: changedAt,
    attempts,
    ...(isFailure && { failure: toFailure(result) }),
    ...(progress && { progress: JSON.parse(progress.json) as unknown, progress_at: progress.at }),
  };
}
