import { z } from "zod";
import { sha256Hex } from "../platform/crypto/compare.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { percentDecoded } from "../platform/text/percent-decoded.ts";
import { isLarge } from "../redis/large.ts";
import { CALL_ID } from "./call-id.ts";
import { Callback, CallbackEvent } from "./callback.ts";
import { ORIGINS } from "./origin.ts";

/** The largest body that a gateway can be configured to take. */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;

/** How long a delivered webhook is kept, and how many bytes those of its endpoint may take. */
const KeepDelivered = z.object({ secs: z.int().min(1), bytes_max: z.int().min(1) });
export type KeepDelivered = z.infer<typeof KeepDelivered>;

/** A new field must be optional, because calls of older releases are stored. */
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
 * The one message that crosses the queue. The body is any bytes, as base64; `sha256` is theirs, in hex. With `keep_result` what the runner
 * answers is kept (shared/call/results). With `keep_delivered` the whole call is kept once the runner has it (shared/call/kept). With
 * `callback` a receiver learns of its end, by a call whose `told` is the message.
 */
export type JobCall = z.infer<typeof known>;

/** Keeps the fields that it does not know, for whoever gets the call next. */
export const JobCall: z.ZodType<JobCall> = known.loose();

type NewCall = Omit<JobCall, "body" | "bytes" | "sha256" | "told"> & { body: Buffer; bodySha256: string };

/** The text of a large body is made each time somebody asks for it, so that a call which waits holds its body once, as bytes. */
export function toJobCall(made: NewCall): JobCall {
  const { id, origin, service_id, job_id, metadata, body, bodySha256, accepted_at, ...optional } = made;
  const isHeldAsBytes = isLarge(storedBytesOf(body.length));
  const call: JobCall = {
    id,
    origin,
    service_id,
    job_id,
    // payments/add-paid.lua adds the transaction at the first `"metadata":{` of the JSON, so no nested object may come before it.
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

/** What `JSON.stringify(call)` says, for Redis. Of a large call it is bytes: the one text that is made of its body is the base64. */
export function toJson(call: JobCall): string | Buffer {
  return isLarge(storedBytes(call)) ? toJsonBytes(call) : JSON.stringify(call);
}

/** Base64 needs no escapes. */
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

/** How much Redis has to hold of a call: little more than its body, as base64. */
export function storedBytes({ bytes }: Pick<JobCall, "bytes">): number {
  return storedBytesOf(bytes);
}

/** The same of a body that is not yet a call. */
export function storedBytesOf(bodyBytes: number): number {
  return 4 * Math.ceil(bodyBytes / 3);
}

/** Checks what the queue held. Throws `call.corrupt` if it is no call or its bytes changed. */
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

/** A call's metadata keys, which are also headers of the request to the runner. */
export const WEBHOOK_PATH = "X-WEBHOOK-PATH";
export const WEBHOOK_NAME = "X-WEBHOOK-NAME";
export const WEBHOOK_ORIGIN = "X-WEBHOOK-ORIGIN";
/** The sender's own id and type of the delivery, and the query of its request. */
export const WEBHOOK_DELIVERY_ID = "X-WEBHOOK-DELIVERY-ID";
export const WEBHOOK_EVENT = "X-WEBHOOK-EVENT";
/**
 * A type that is not visible ASCII, as an extended value (RFC 8187, section 3.2.1). The name has no `*`: nginx drops such a header, and
 * then the producer's signature, which covers it, would not hold.
 */
export const WEBHOOK_EVENT_UTF8 = "X-WEBHOOK-EVENT-UTF8";
/** The delivered call that an operator has replayed as this one. */
export const WEBHOOK_REPLAY_OF = "X-WEBHOOK-REPLAY-OF";
export const WEBHOOK_QUERY = "X-WEBHOOK-QUERY";
/** The names of the sender's headers that came along, separated by commas. They too are metadata. */
export const WEBHOOK_FORWARDED = "X-WEBHOOK-FORWARDED";

/** The sender's type of the event, as it was sent. */
export function eventOf(metadata: Readonly<Record<string, string>>): string | undefined {
  const extended = metadata[WEBHOOK_EVENT_UTF8];
  if (extended === undefined) return metadata[WEBHOOK_EVENT];
  return percentDecoded(extended.slice(extended.lastIndexOf("'") + 1)) ?? extended;
}

/** Who paid for the call, and in which transaction. */
export const X402_PAYER = "X-X402-PAYER";
export const X402_TRANSACTION = "X-X402-TRANSACTION";

/** The prefix is a setting (`metadata_prefix`), for runners that use another brand. */
export function platformKeys(prefix: string) {
  return {
    serviceId: `${prefix}-SERVICE-ID`,
    callId: `${prefix}-CALL-ID`,
    caller: `${prefix}-CALLER`,
    /** Of a request only, as is the next; the runner does not get them. */
    quote: `${prefix}-QUOTE`,
    callback: `${prefix}-CALLBACK`,
  } as const;
}

/**
 * Tells the metadata among the headers that a runner receives, by their names: ours, and those of the sender that
 * X-WEBHOOK-FORWARDED lists. The producer's signature must cover them.
 */
export function metadataTest(prefix: string, forwarded = ""): (name: string) => boolean {
  const starts = [`${prefix}-`, "X-X402-", "X-WEBHOOK-"].map((start) => start.toLowerCase());
  const names = forwarded.toLowerCase().split(", ");
  return (name) => {
    const lower = name.toLowerCase();
    return starts.some((start) => lower.startsWith(start)) || names.includes(lower);
  };
}
