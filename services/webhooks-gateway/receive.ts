import type { IncomingMessage, ServerResponse } from "node:http";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import type { Accept, Accepted } from "../../shared/gateway/accept.ts";
import type { Admission } from "../../shared/gateway/admission.ts";
import { leaveUnread } from "../../shared/http/body.ts";
import { COMMON_HEADERS, logRefused, sendProblem } from "../../shared/http/problem.ts";
import type { JobCall } from "../../shared/job-call/job-call.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { MakeCall } from "./call.ts";
import type { Credential } from "./credential.ts";
import type { HandshakeAnswer, Handshakes } from "./handshake.ts";

/** A configured endpoint and what was made of its configuration. */
export type Endpoint = {
  config: EndpointToml;
  credential: Credential;
  handshakes: Handshakes;
  makeCall: MakeCall;
  /** How long a delivery id is remembered after its call has ended. */
  windowMs: number;
};

type Deps = { admission: Admission; accept: Accept; clock: Clock; log: Logger };

export type Receive = (req: IncomingMessage, res: ServerResponse, endpoint: Endpoint) => Promise<void>;

/** One webhook, top to bottom. What can be refused early is refused before the body is read. */
export function createReceive({ admission, accept, clock, log }: Deps): Receive {
  return async function receive(req, res, endpoint) {
    const startedAt = clock();
    const { config, credential, handshakes, makeCall, windowMs } = endpoint;
    const { path } = config;

    function finishHandshake(answer: HandshakeAnswer): void {
      sendHandshake(req, res, answer);
      log.info("webhook.handshake_answered", { path, status: answer.status, ms: clock() - startedAt });
    }

    try {
      const setUp = await handshakes.answerUnsigned(req);
      if (setUp !== undefined) return finishHandshake(setUp);
      assertMethod(req, config);
      admission.assertOpen();
      const body = await credential.readProvenBody(req, res);
      const signedSetUp = handshakes.answerSigned(req, body);
      if (signedSetUp !== undefined) return finishHandshake(signedSetUp);

      const made = makeCall(req, body);
      if (made === undefined) {
        sendSuccess(res, config, '{"status":"dropped"}', false);
        log.info("webhook.dropped", { path, bytes: body.length, ms: clock() - startedAt });
        return;
      }
      const { call, repeat } = made;
      const accepted = await accept(call, repeat && { ...repeat, windowMs });

      sendSuccess(res, config, acceptedBody(call, accepted), accepted.replayed);
      failpoint("gateway.after_answer");
      log.info("webhook.accepted", {
        callId: call.id,
        path,
        jobId: call.job_id,
        bytes: call.bytes,
        replayed: accepted.replayed,
        ms: clock() - startedAt,
      });
    } catch (thrown) {
      const error = toAppError(thrown);
      sendRefused(req, res, error, endpoint);
      logRefused(log, "webhook.refused", error, { path, ms: clock() - startedAt });
    }
  };
}

function assertMethod(req: IncomingMessage, { methods }: EndpointToml): void {
  if ((methods as readonly unknown[]).includes(req.method)) return;
  const publicDetail = `use ${methods.join(" or ")}`;
  throw new AppError("request.method_not_allowed", { reason: `${req.method}`, publicDetail });
}

/** The call is on disk. A repeat says so, and in which state the call is. */
function acceptedBody(call: JobCall, { status }: Accepted): string {
  return `{"status":"${status}","job_id":${call.job_id},"call_id":"${call.id}"}`;
}

/** Flat lists, which Node writes out unchanged: an object of headers made for each answer costs far more. */
const COMMON = Object.entries(COMMON_HEADERS).flat();
const OUR_JSON = [...COMMON, "Content-Type", "application/json"];

/** The status and body that this sender takes for a success; without others, ours. */
function sendSuccess(res: ServerResponse, { answer }: EndpointToml, ours: string, replayed: boolean): void {
  const { status, content_type } = answer;
  const body = status === 204 ? "" : (answer.body ?? ours);
  const headers: (string | number)[] =
    content_type === undefined && body === ours ? [...OUR_JSON] : [...COMMON];
  if (content_type !== undefined) headers.push("Content-Type", content_type);
  if (status !== 204) headers.push("Content-Length", Buffer.byteLength(body));
  if (replayed) headers.push("Idempotent-Replayed", "true");
  res.writeHead(status, headers);
  res.end(body);
}

function sendHandshake(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body }: HandshakeAnswer,
): void {
  leaveUnread(req, res);
  const length = status === 204 ? {} : { "Content-Length": Buffer.byteLength(body) };
  res.writeHead(status, { ...COMMON_HEADERS, ...headers, ...length });
  res.end(req.method === "HEAD" ? "" : body);
}

/** A problem document, with the challenge or the allowed methods that its status asks for. */
function sendRefused(
  req: IncomingMessage,
  res: ServerResponse,
  error: AppError,
  { config, credential }: Endpoint,
): void {
  const shown =
    error.code === "webhook.credential_rejected" ? withHeaders(error, credential.explain(req)) : error;
  sendProblem(req, res, shown, { headers: headersFor(error.code, config, credential) });
}

function withHeaders({ code, message: reason }: AppError, publicDetail: string): AppError {
  return new AppError(code, { reason, publicDetail });
}

function headersFor(code: ErrorCode, config: EndpointToml, credential: Credential): Record<string, string> {
  if (code === "webhook.credential_rejected") return { "WWW-Authenticate": credential.challenge };
  if (code !== "request.method_not_allowed") return {};
  const methods = [...config.methods, ...config.handshakes.map(({ method }) => method)];
  return { Allow: [...new Set(methods)].join(", ") };
}
