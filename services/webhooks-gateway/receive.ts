import type { IncomingMessage, ServerResponse } from "node:http";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import type { Accept } from "../../shared/gateway/accept.ts";
import type { Admission } from "../../shared/gateway/admission.ts";
import { headerValues, traceparentOf } from "../../shared/http/headers.ts";
import { logRefused } from "../../shared/http/problem.ts";
import { callIdFrom, randomCallId } from "../../shared/job-call/call-id.ts";
import { toJobCall } from "../../shared/job-call/job-call.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { readProvenBody } from "./body.ts";
import { checkCredential } from "./credential.ts";
import { sendAccepted, sendRefused } from "./response.ts";

/** A configured endpoint with its defaults resolved. */
export type Endpoint = {
  config: EndpointToml;
  bodyBytesMax: number;
  /** How long a delivery id is remembered after its call has ended. */
  windowMs: number;
  metadataOf(callId: string): Record<string, string>;
};

type Deps = { admission: Admission; accept: Accept; clock: Clock; log: Logger };

export type Receive = (req: IncomingMessage, res: ServerResponse, endpoint: Endpoint) => Promise<void>;

/** One webhook, top to bottom. What can be refused early is refused before the body is read. */
export function createReceive({ admission, accept, clock, log }: Deps): Receive {
  return async function receive(req, res, endpoint) {
    const startedAt = clock();
    const { config } = endpoint;
    try {
      assertPost(req);
      admission.assertOpen();
      const proof = checkCredential(req, config);
      const deliveryId = readDeliveryId(req, config);
      const body = await readProvenBody(req, res, endpoint, proof);

      const bodySha256 = sha256Hex(body);
      const id = toCallId(config, deliveryId, bodySha256);
      const call = toJobCall({
        id,
        origin: "webhook",
        job_id: config.job_id,
        metadata: endpoint.metadataOf(id),
        contentType: req.headers["content-type"],
        body,
        bodySha256,
        accepted_at: clock(),
        traceparent: traceparentOf(req),
      });
      const accepted = await accept(call, deliveryId === undefined ? undefined : endpoint.windowMs);

      sendAccepted(res, call, accepted);
      failpoint("gateway.after_answer");
      log.info("webhook.accepted", {
        callId: call.id,
        path: config.path,
        jobId: call.job_id,
        bytes: call.bytes,
        replayed: accepted.replayed,
        ms: clock() - startedAt,
      });
    } catch (thrown) {
      const error = toAppError(thrown);
      sendRefused(req, res, error, config);
      logRefused(log, "webhook.refused", error, { path: config.path, ms: clock() - startedAt });
    }
  };
}

function assertPost(req: IncomingMessage): void {
  if (req.method === "POST") return;
  throw new AppError("request.method_not_allowed", { reason: `${req.method}`, publicDetail: "use POST" });
}

const DELIVERY_ID_BYTES_MAX = 256;

/** The sender's own id of this delivery, if the endpoint reads one and the request has one. */
function readDeliveryId(req: IncomingMessage, endpoint: EndpointToml): string | undefined {
  if (endpoint.idempotency_header === undefined) return undefined;
  const [value, ...more] = headerValues(req, endpoint.idempotency_header);
  if (value === undefined) return undefined;
  if (more.length > 0) throw invalidDeliveryId(endpoint, "came more than once");
  if (value === "") throw invalidDeliveryId(endpoint, "is empty");
  if (value.length > DELIVERY_ID_BYTES_MAX)
    throw invalidDeliveryId(endpoint, `is longer than ${DELIVERY_ID_BYTES_MAX} bytes`);
  return value;
}

function invalidDeliveryId({ idempotency_header }: EndpointToml, what: string): AppError {
  return AppError.public("webhook.delivery_id_invalid", `the header ${idempotency_header} ${what}`);
}

/**
 * The same delivery is the same call on every replica. A bearer token or an API key proves who sent the delivery id. Under
 * hmac-sha256 and none the credential does not cover that header, so the body is part of the id: otherwise a stranger
 * could take the id of another body.
 */
function toCallId(endpoint: EndpointToml, deliveryId: string | undefined, bodySha256: string): string {
  if (deliveryId === undefined) return randomCallId();
  switch (endpoint.auth) {
    case "bearer":
    case "api-key":
      return callIdFrom(endpoint.path, deliveryId);
    case "hmac-sha256":
    case "none":
      return callIdFrom(endpoint.path, deliveryId, bodySha256);
  }
}
