import type { IncomingMessage, ServerResponse } from "node:http";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import type { AppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import type { Accepted } from "../../shared/gateway/accept.ts";
import { COMMON_HEADERS, sendProblem } from "../../shared/http/problem.ts";
import type { JobCall } from "../../shared/job-call/job-call.ts";
import { challengeOf } from "./credential.ts";

/** A flat list, which Node writes out unchanged: an object of headers made for each answer costs far more. */
const ACCEPTED_HEADERS = Object.entries({ ...COMMON_HEADERS, "Content-Type": "application/json" }).flat();

/** 202: the call is on disk. A repeat says so, and in which state the call is. */
export function sendAccepted(res: ServerResponse, call: JobCall, { status, replayed }: Accepted): void {
  const body = `{"status":"${status}","job_id":${call.job_id},"call_id":"${call.id}"}`;
  const headers = [...ACCEPTED_HEADERS, "Content-Length", body.length];
  if (replayed) headers.push("Idempotent-Replayed", "true");
  res.writeHead(202, headers);
  res.end(body);
}

/** A problem document, with the challenge or the allowed method that its status asks for. */
export function sendRefused(
  req: IncomingMessage,
  res: ServerResponse,
  error: AppError,
  endpoint: EndpointToml,
): void {
  sendProblem(req, res, error, { headers: headersFor(error.code, endpoint) });
}

function headersFor(code: ErrorCode, endpoint: EndpointToml): Record<string, string> {
  if (code === "webhook.credential_rejected") return { "WWW-Authenticate": challengeOf(endpoint) };
  if (code === "request.method_not_allowed") return { Allow: "POST" };
  return {};
}
