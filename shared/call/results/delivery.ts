import { sha256Hex } from "../../platform/crypto/compare.ts";
import { contentDigest, type SignedMessage, signMessage } from "../../platform/crypto/message-signature.ts";
import type { Secret } from "../../platform/crypto/secret.ts";

/*
 * The protocol in which the runner of a long job delivers to a gateway: `PUT /calls/{call_id}/result` with the bytes of the
 * result, and `POST /calls/{call_id}/progress` with a JSON object. The page docs/runner.md describes it for runners in other
 * languages.
 */

/** Header with the status of the result; 200 if absent. 2xx is an answer; 4xx and 5xx mean that the call failed for good. */
export const RESULT_STATUS = "result-status";
/** Header with the value `too-long`, if the runner did not keep the body because of its length. */
export const RESULT_BODY = "result-body";
export const TOO_LONG = "too-long";

/** Maximum size of a progress message. */
export const PROGRESS_BYTES_MAX = 4096;

/**
 * Returns whether a signature must cover this header if it is present. This function does not name Content-Type, because
 * `verifyMessage` itself requires that the signature covers it.
 */
export function isDeliveryHeader(name: string): boolean {
  return name === RESULT_STATUS || name === RESULT_BODY;
}

export function deliveryPath(callId: string, what: "result" | "progress"): string {
  return `/calls/${callId}/${what}`;
}

type Unsigned = {
  method: SignedMessage["method"];
  path: string;
  body: Uint8Array;
  /** Headers to send, by lower-case name. The signature covers them. */
  headers: Readonly<Record<string, string>>;
};

/** Returns all headers of a delivery, with the signature. */
export function signDelivery(
  secret: Secret,
  { method, path, body, headers }: Unsigned,
  createdSec: number,
): Record<string, string> {
  const covered = { "content-digest": contentDigest(sha256Hex(body)), ...headers };
  return { ...covered, ...signMessage(secret, { method, path, headers: covered }, createdSec) };
}
