import { createHmac } from "node:crypto";
import type { Failure, Told } from "../../../shared/job-call/callback.ts";
import type { CallHead } from "../../../shared/job-call/job-call.ts";
import type { ProblemText } from "../../../shared/results/result.ts";
import type { ResultRead } from "../../../shared/results/store.ts";

/** A callback as it is sent. */
export type Message = { headers: Record<string, string>; body: Buffer };

/** The `data` of a callback. */
type Data = {
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
  { told, service_id, job_id, accepted_at }: CallHead & { told: Told },
  read: ResultRead,
  resultBytesMax: number,
): Buffer {
  const { type, call_id, origin, to, failure } = told;
  const data: Data = {
    ...{ call_id, origin, service_id, job_index: job_id },
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

/**
 * The headers of Standard Webhooks. Each key signs, so that a receiver that knows one of them can verify: that is how one is rotated.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function sign(keys: readonly Buffer[], id: string, body: Buffer, atSec: number): Message {
  const head = `${id}.${atSec}.`;
  const signatures = keys.map((key) => createHmac("sha256", key).update(head).update(body).digest("base64"));
  const headers = {
    "content-type": "application/json",
    "user-agent": "Postern",
    "webhook-id": id,
    "webhook-timestamp": String(atSec),
    "webhook-signature": signatures.map((signature) => `v1,${signature}`).join(" "),
  };
  return { headers, body };
}
