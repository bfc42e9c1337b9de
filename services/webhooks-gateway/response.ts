import type { IncomingMessage, ServerResponse } from "node:http";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { toAppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import type { Accepted } from "../../shared/gateway/accept.ts";
import { COMMON_HEADERS, sendProblem } from "../../shared/http/problem.ts";
import { logRefused } from "../../shared/http/refusal.ts";
import type { JobCall } from "../../shared/job-call/job-call.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { challengeOf } from "./credential.ts";

/** As a flat list, which Node writes out as it stands: an object of headers made for each answer costs far more. */
const ACCEPTED_HEADERS = Object.entries({ ...COMMON_HEADERS, "Content-Type": "application/json" }).flat();

/** 202: the call is on disk. A repeat says so, and in which state the call is. */
export function answerAccepted(res: ServerResponse, call: JobCall, { status, replayed }: Accepted): void {
  const body = `{"status":"${status}","job_id":${call.job_id},"call_id":"${call.id}"}`;
  const headers = [...ACCEPTED_HEADERS, "Content-Length", body.length];
  if (replayed) headers.push("Idempotent-Replayed", "true");
  res.writeHead(202, headers);
  res.end(body);
}

type Refused = {
  req: IncomingMessage;
  res: ServerResponse;
  endpoint: EndpointToml;
  thrown: unknown;
  startedAt: number;
};

/** A problem document for the sender, the reason for the log. */
export function answerRefused({ log, clock }: { log: Logger; clock: Clock }, refused: Refused): void {
  const { req, res, endpoint, thrown, startedAt } = refused;
  const error = toAppError(thrown);
  sendProblem(req, res, { error, extra: { headers: headersFor(error.code, endpoint) } });
  logRefused(log, "webhook.refused", { path: endpoint.path, error, ms: clock() - startedAt });
}

function headersFor(code: ErrorCode, endpoint: EndpointToml): Record<string, string> {
  if (code === "webhook.credential_rejected") return { "WWW-Authenticate": challengeOf(endpoint) };
  if (code === "request.method_not_allowed") return { Allow: "POST" };
  return {};
}
