import type { IncomingMessage, ServerResponse } from "node:http";
import type { Secret } from "../crypto/secret.ts";
import { AppError } from "../errors/app-error.ts";
import { onlyHeaderValue, rawQuery } from "../http/headers.ts";
import { sendProblem } from "../http/problem.ts";
import type { CallStatus } from "../results/store.ts";
import { createResultTokens, type ResultTokens } from "../results/token.ts";
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

/** Asks for a token. The answer is the same for every call, so it does not tell which there are. */
export function demandToken(req: IncomingMessage, res: ServerResponse): void {
  const detail = "give the result_token of the call's 202, as Authorization: Bearer or ?token=";
  const headers = { "WWW-Authenticate": 'Bearer realm="postern"' };
  sendProblem(req, res, AppError.public("result.proof_required", detail), { headers });
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
