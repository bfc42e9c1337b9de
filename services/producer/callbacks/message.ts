import { createHmac, createSecretKey, type KeyObject, sign as signature } from "node:crypto";
import type { CallbackEvent, Failure } from "../../../shared/call/callback.ts";
import type { CallHead } from "../../../shared/call/job-call.ts";
import type { ProblemText } from "../../../shared/call/results/result.ts";
import type { ResultRead } from "../../../shared/call/results/store.ts";
import { callbackSigningKey, receiverKey } from "../../../shared/platform/crypto/callback-keys.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";

/** A callback as it is sent. */
export type Message = { headers: Record<string, string>; body: Buffer };

/** The `data` of a callback. */
type Data = {
  /** The receiver's exact URL: without it a message for one receiver could be passed on to another one. */
  callback_url: string;
  call_id: string;
  origin: string;
  service_id: number;
  job_index: number;
  /** Of the call. Its runner may tell of a failure long after it has taken it. */
  state: "injected" | "failed";
  result?: Result;
  failure?: Failure | ({ status: number } & ProblemText);
  result_url?: string;
  result_token?: string;
};

/** The runner's answer. Without a body it is longer than a callback carries, or than is kept. */
type Result = { status: number; content_type?: string; body?: string; body_base64?: string };

/** What is told of a call's end: in the form that Standard Webhooks recommends, with as much of the result as is kept and fits. */
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
    ...(type === "call.completed" ? ofCompleted(read, resultBytesMax) : ofFailed(failure, read)),
    ...(to.result_url !== undefined && { result_url: to.result_url }),
    ...(to.result_token !== undefined && { result_token: to.result_token }),
  };
  const at = "by" in read && read.by === "delivery" && failure === undefined ? read.at : accepted_at;
  return Buffer.from(JSON.stringify({ type, timestamp: new Date(at).toISOString(), data }));
}

function ofCompleted(read: ResultRead, bytesMax: number): { result?: Result } {
  if (read.kind !== "answer" && read.kind !== "too_long") return {};
  const { status, contentType } = read;
  const told = { status, ...(contentType !== undefined && { content_type: contentType }) };
  if (read.kind === "too_long" || read.body.length > bytesMax) return { result: told };
  const text = read.body.toString("utf8");
  const isText = Buffer.from(text).equals(read.body);
  return {
    result: { ...told, ...(isText ? { body: text } : { body_base64: read.body.toString("base64") }) },
  };
}

function ofFailed(failure: Failure | undefined, read: ResultRead): Pick<Data, "failure"> {
  if (failure !== undefined) return { failure };
  if (read.kind !== "failure") return {};
  const { status, title, detail } = read;
  const text = { ...(title !== undefined && { title }), ...(detail !== undefined && { detail }) };
  return { failure: { status, ...text } };
}

/** Signs a message for the receiver at this URL. */
export type Sign = (id: string, url: string, body: Buffer, atSec: number) => Message;

/**
 * Signs as Standard Webhooks says, with each secret twice: by the receiver's own secret (`v1`), and by Ed25519 (`v1a`), for receivers that
 * nobody gave a secret. Each secret signs, so that a receiver that knows one of them can verify: that is how one is rotated.
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
