import { createHmac, createSecretKey, type KeyObject, sign as signature } from "node:crypto";
import type { CallbackEvent, Failure } from "../../../shared/call/callback.ts";
import type { CallHead } from "../../../shared/call/job-call.ts";
import type { ProblemText } from "../../../shared/call/results/result.ts";
import type { ResultRead } from "../../../shared/call/results/store.ts";
import { callbackSigningKey, receiverKey } from "../../../shared/platform/crypto/callback-keys.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";

/** Headers and body of a callback. */
export type Message = { headers: Record<string, string>; body: Buffer };

/** The `data` of a callback. */
type Data = {
  /**
   * The receiver's exact URL. All receivers verify `v1a` signatures with the same key. So without the URL in it, one receiver
   * could pass its message on to another receiver, where the signature would also be valid.
   */
  callback_url: string;
  call_id: string;
  origin: string;
  service_id: number;
  job_index: number;
  /**
   * State of the call. A call can be `injected` and still have a failure: its runner accepted it, and reported the failure
   * later.
   */
  state: "injected" | "failed";
  result?: Result;
  failure?: Failure | ({ status: number } & ProblemText);
  result_url?: string;
  result_token?: string;
};

/** The runner's answer. The body is absent if it is too long for a callback or no longer kept. */
type Result = { status: number; content_type?: string; body?: string; body_base64?: string };

/**
 * Builds the body of a callback about a call's end, in the form that Standard Webhooks recommends. The result is
 * included if it is kept and not too long for a callback.
 */
export function toBody(
  { told, service_id, job_id, accepted_at }: CallHead & { told: CallbackEvent },
  read: ResultRead,
  resultBytesMax: number,
): Buffer {
  const { type, call_id, origin, to, failure } = told;
  const data: Data = {
    callback_url: to.url,
    call_id,
    origin,
    service_id,
    job_index: job_id,
    state: failure === undefined ? "injected" : "failed",
    ...(type === "call.completed" ? completedFields(read, resultBytesMax) : failedFields(failure, read)),
    ...(to.result_url !== undefined && { result_url: to.result_url }),
    ...(to.result_token !== undefined && { result_token: to.result_token }),
  };
  const at = "by" in read && read.by === "delivery" && failure === undefined ? read.at : accepted_at;
  return Buffer.from(JSON.stringify({ type, timestamp: new Date(at).toISOString(), data }));
}

function completedFields(read: ResultRead, bytesMax: number): { result?: Result } {
  if (read.kind !== "answer" && read.kind !== "too_long") return {};
  const { status, contentType } = read;
  const answer = { status, ...(contentType !== undefined && { content_type: contentType }) };
  if (read.kind === "too_long" || read.body.length > bytesMax) return { result: answer };
  const text = read.body.toString("utf8");
  const isText = Buffer.from(text).equals(read.body);
  return {
    result: { ...answer, ...(isText ? { body: text } : { body_base64: read.body.toString("base64") }) },
  };
}

function failedFields(failure: Failure | undefined, read: ResultRead): Pick<Data, "failure"> {
  if (failure !== undefined) return { failure };
  if (read.kind !== "failure") return {};
  const { status, title, detail } = read;
  const text = { ...(title !== undefined && { title }), ...(detail !== undefined && { detail }) };
  return { failure: { status, ...text } };
}

/** Signs a message for the receiver at this URL. */
export type Sign = (id: string, url: string, body: Buffer, atSec: number) => Message;

/**
 * Creates a signer of callbacks, as Standard Webhooks specifies. Each secret makes two signatures: one with the receiver's own
 * secret (`v1`), and one with Ed25519 (`v1a`) for receivers that have no secret. All secrets sign, so that a receiver can
 * verify with any one of them while secrets are rotated.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function createSign(secrets: readonly Secret[]): Sign {
  const signingKeys = secrets.map(callbackSigningKey);
  return (id, url, body, atSec) => {
    const signed = Buffer.concat([Buffer.from(`${id}.${atSec}.`), body]);
    const signatures = [
      ...secrets.map((secret) => `v1,${hmac(receiverKey(secret, url), signed)}`),
      ...signingKeys.map((key) => `v1a,${ed25519(key, signed)}`),
    ];
    const headers = {
      "content-type": "application/json",
      "user-agent": "Postern",
      "webhook-id": id,
      "webhook-timestamp": String(atSec),
      "webhook-signature": signatures.join(" "),
    };
    return { headers, body };
  };
}

function hmac(key: Buffer, signed: Buffer): string {
  return createHmac("sha256", createSecretKey(key)).update(signed).digest("base64");
}

function ed25519(key: KeyObject, signed: Buffer): string {
  return signature(null, signed, key).toString("base64");
}
