import { sha256Hex } from "../../platform/crypto/compare.ts";
import { contentDigest, type SignedMessage, signMessage } from "../../platform/crypto/message-signature.ts";
import type { Secret } from "../../platform/crypto/secret.ts";

/*
 * What a runner and a gateway agree on when the runner of a long job delivers: `PUT /calls/{call_id}/result` with the bytes of the
 * result, and `POST /calls/{call_id}/progress` with a JSON object. docs/runner.md has it for runners in other languages.
 */

/** 200 if it is absent. 2xx is an answer; 4xx and 5xx say that the call failed for good. */
export const RESULT_STATUS = "result-status";
/** `too-long` in place of a body that the runner has not kept. */
export const RESULT_BODY = "result-body";
export const TOO_LONG = "too-long";

/** So long may word of the progress be. */
export const PROGRESS_BYTES_MAX = 4096;

/** Headers beside Content-Type that a signature must cover if they are there. */
export function isOfDelivery(name: string): boolean {
  return name === RESULT_STATUS || name === RESULT_BODY;
}

export function deliveryPath(callId: string, what: "result" | "progress"): string {
  return `/calls/${callId}/${what}`;
}

type Unsigned = {
  method: SignedMessage["method"];
  path: string;
  body: Uint8Array;
  /** To be sent and covered, by lower-case name. */
  headers: Readonly<Record<string, string>>;
};

/** Every header of a request that delivers. */
export function signDelivery(
  secret: Secret,
  { method, path, body, headers }: Unsigned,
  createdSec: number,
): Record<string, string> {
  const covered = { "content-digest": contentDigest(sha256Hex(body)), ...headers };
  return { ...covered, ...signMessage(secret, { method, path, headers: covered }, createdSec) };
}
