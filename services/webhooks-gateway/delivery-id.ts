import type { IncomingMessage } from "node:http";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { headerValues } from "../../shared/http/headers.ts";
import { callIdFrom, randomCallId } from "../../shared/job-call/call-id.ts";

const BYTES_MAX = 256;

/** The sender's own id of this delivery; undefined where the endpoint asks for none or the request has none. */
export function readDeliveryId(req: IncomingMessage, endpoint: EndpointToml): string | undefined {
  if (endpoint.idempotency_header === undefined) return undefined;
  const [value, ...more] = headerValues(req, endpoint.idempotency_header);
  if (value === undefined) return undefined;
  if (more.length > 0) throw invalid(endpoint, "came more than once");
  if (value === "") throw invalid(endpoint, "is empty");
  if (value.length > BYTES_MAX) throw invalid(endpoint, `is longer than ${BYTES_MAX} bytes`);
  return value;
}

/**
 * The id of the call: the same delivery is the same call on every replica. Bearer and api-key prove who sent the
 * delivery id; under hmac-sha256 and none the header is not covered by the credential, so the body is part of the
 * evidence and a stranger's id cannot stand in the way of another body.
 */
export function toCallId(endpoint: EndpointToml, deliveryId: string | undefined, bodySha256: string): string {
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

function invalid(endpoint: EndpointToml, what: string): AppError {
  const detail = `the header ${endpoint.idempotency_header} ${what}`;
  return AppError.public("webhook.delivery_id_invalid", detail);
}
