import { z } from "zod";
import { sha256Hex } from "../platform/crypto/compare.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { percentDecoded } from "../platform/text/percent-decoded.ts";
import { isLarge } from "../redis/large.ts";
import { CALL_ID } from "./call-id.ts";
import { Callback, CallbackEvent } from "./callback.ts";
import { ORIGINS } from "./origin.ts";

/** The largest body that a gateway can be configured to accept. */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;

/** Retention time of a delivered webhook, and maximum size of all kept webhooks of its endpoint. */
const KeepDelivered = z.object({ secs: z.int().min(1), bytes_max: z.int().min(1) });
export type KeepDelivered = z.infer<typeof KeepDelivered>;

/**
 * Schema of a stored call. A new field must be optional, because Redis may still have calls that an older release stored
 * without it.
 */
const known = z.object({
  id: z.string().regex(CALL_ID),
  origin: z.enum(ORIGINS),
  service_id: z.int().min(0),
  job_id: z.int().min(0),
  metadata: z.record(z.string(), z.string()),
  content_type: z.string().optional(),
  body: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  bytes: z.int().min(0),
  accepted_at: z.int(),
  traceparent: z.string().optional(),
  keep_result: z.boolean().optional(),
  keep_delivered: KeepDelivered.optional(),
  callback: Callback.optional(),
  told: CallbackEvent.optional(),
});

/**
 * A call as it is stored in a queue. The body is base64 of any bytes; `sha256` is their hash, in hex. With `keep_result`, the
 * runner's answer is kept (shared/call/results). With `keep_delivered`, the whole call is kept after the runner accepted it
 * (shared/call/kept). With `callback`, a receiver is notified of the call's end. `told` is set only if the call is itself a
 * callback, and has the end that it reports.
 */
export type JobCall = z.infer<typeof known>;

/**
 * Schema that also keeps unknown fields. A later release may have added them, and the process that reads the call next may
 * know them.
 */
export const JobCall: z.ZodType<JobCall> = known.loose();

type NewCall = Omit<JobCall, "body" | "bytes" | "sha256" | "told"> & { body: Buffer; bodySha256: string };

/**
 * Builds a call. If its body is large, `body` computes the base64 each time it is read. So a call in memory holds its body
 * only once, as bytes.
 */
export function toJobCall(made: NewCall): JobCall {
  const { id, origin, service_id, job_id, metadata, body, bodySha256, accepted_at, ...optional } = made;
  const isHeldAsBytes = isLarge(storedBytesOf(body.length));
  const call: JobCall = {
    id,
    origin,
    service_id,
    job_id,
    // payments/add-paid.lua inserts the transaction after the first `"metadata":{` in the JSON. So `metadata` must come
    // before any other object, which could contain the same text.
    metadata,
    body: isHeldAsBytes ? "" : body.toString("base64"),
    sha256: bodySha256,
    bytes: body.length,
    accepted_at,
    ...optional,
  };
  if (isHeldAsBytes) {
    Object.defineProperty(call, "body", { get: () => body.toString("base64"), enumerable: true });
  }
  return call;
}

/**
 * Encodes a call as JSON for Redis. A large call is encoded as bytes. As a string, its JSON would be a second long string
 * beside the base64 of its body.
 */
export function toJson(call: JobCall): string | Buffer {
  return isLarge(storedBytes(call)) ? toJsonBytes(call) : JSON.stringify(call);
}

/** Encodes a large call as bytes. The body needs no escapes, because it is base64. */
function toJsonBytes(call: JobCall): Buffer {
  const fields = Object.entries(call);
  const at = fields.findIndex(([name]) => name === "body");
  const body = String(fields[at]?.[1]);
  const before = JSON.stringify(Object.fromEntries(fields.slice(0, at)));
  const after = JSON.stringify(Object.fromEntries(fields.slice(at + 1)));
  const head = Buffer.from(`${before.slice(0, -1)},"body":"`);
  const tail = Buffer.from(`",${after.slice(1)}`);
  const json = Buffer.allocUnsafeSlow(head.length + body.length + tail.length);
  head.copy(json);
  json.write(body, head.length, "latin1");
  tail.copy(json, head.length + body.length);
  return json;
}

/** A call without its body. */
export type CallHead = Omit<JobCall, "body">;

/** Estimated size of a call in Redis: that of its body as base64. The other fields are small. */
export function storedBytes({ bytes }: Pick<JobCall, "bytes">): number {
  return storedBytesOf(bytes);
}

/** Size in Redis of a call with a body of this size. */
export function storedBytesOf(bodyBytes: number): number {
  return 4 * Math.ceil(bodyBytes / 3);
}

/** Validates a stored call. Throws `call.corrupt` if it is not a call, or if its body does not match its hash. */
export function parseJobCall(stored: unknown): { call: CallHead; body: Buffer } {
  const { data, error } = JobCall.safeParse(stored);
  if (error !== undefined)
    throw new AppError("call.corrupt", { reason: z.prettifyError(error), cause: error });
  const { body: encoded, ...call } = data;
  const body = Buffer.from(encoded, "base64");
  if (body.length !== call.bytes || sha256Hex(body) !== call.sha256) {
    throw new AppError("call.corrupt", { reason: `body does not match its sha256 ${call.sha256}` });
  }
  return { call, body };
}

/** Keys of a call's metadata, which are also headers of the request to the runner. */
export const WEBHOOK_PATH = "X-WEBHOOK-PATH";
export const WEBHOOK_NAME = "X-WEBHOOK-NAME";
export const WEBHOOK_ORIGIN = "X-WEBHOOK-ORIGIN";
/** Id of the delivery, chosen by its sender. */
export const WEBHOOK_DELIVERY_ID = "X-WEBHOOK-DELIVERY-ID";
export const WEBHOOK_EVENT = "X-WEBHOOK-EVENT";
/**
 * Type of the event as an extended value (RFC 8187, section 3.2.1), if it is not visible ASCII. The name has no `*`, because
 * nginx drops a header with such a name. The producer's signature covers this header, so the runner would then refuse the
 * signature.
 */
export const WEBHOOK_EVENT_UTF8 = "X-WEBHOOK-EVENT-UTF8";
/** Id of the delivered call that an operator has replayed as this call. */
export const WEBHOOK_REPLAY_OF = "X-WEBHOOK-REPLAY-OF";
export const WEBHOOK_QUERY = "X-WEBHOOK-QUERY";
/** Names of the sender's headers that are passed to the runner, separated by commas. These headers are metadata too. */
export const WEBHOOK_FORWARDED = "X-WEBHOOK-FORWARDED";

/** Returns the type of the event as the sender sent it. */
export function eventOf(metadata: Readonly<Record<string, string>>): string | undefined {
  const extended = metadata[WEBHOOK_EVENT_UTF8];
  if (extended === undefined) return metadata[WEBHOOK_EVENT];
  return percentDecoded(extended.slice(extended.lastIndexOf("'") + 1)) ?? extended;
}

/** Payer of the call. */
export const X402_PAYER = "X-X402-PAYER";
export const X402_TRANSACTION = "X-X402-TRANSACTION";

/** Metadata keys whose prefix can be configured (`metadata_prefix`), because a runner may expect headers of another brand. */
export function platformKeys(prefix: string) {
  return {
    serviceId: `${prefix}-SERVICE-ID`,
    callId: `${prefix}-CALL-ID`,
    caller: `${prefix}-CALLER`,
    /** Headers of requests to a gateway. They are not passed to the runner. */
    quote: `${prefix}-QUOTE`,
    callback: `${prefix}-CALLBACK`,
  } as const;
}

/**
 * Returns a function that tells whether a header of a request to a runner is metadata: one of our own, or a sender's header
 * that X-WEBHOOK-FORWARDED lists. The producer's signature must cover these headers.
 */
export function metadataTest(prefix: string, forwarded = ""): (name: string) => boolean {
  const starts = [`${prefix}-`, "X-X402-", "X-WEBHOOK-"].map((start) => start.toLowerCase());
  const names = forwarded.toLowerCase().split(", ");
  return (name) => {
    const lower = name.toLowerCase();
    return starts.some((start) => lower.startsWith(start)) || names.includes(lower);
  };
}
