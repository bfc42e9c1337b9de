import type { IncomingMessage } from "node:http";
import { callIdFrom, callIdOfDelivery, callIdOfSignedDelivery } from "../../shared/call/call-id.ts";
import { toTarget } from "../../shared/call/callback-target.ts";
import {
  type JobCall,
  platformKeys,
  toJobCall,
  WEBHOOK_DELIVERY_ID,
  WEBHOOK_EVENT,
  WEBHOOK_EVENT_UTF8,
  WEBHOOK_FORWARDED,
  WEBHOOK_NAME,
  WEBHOOK_ORIGIN,
  WEBHOOK_PATH,
  WEBHOOK_QUERY,
} from "../../shared/call/job-call.ts";
import type { JobIds } from "../../shared/call/job-ids.ts";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { rawQuery, traceparentOf } from "../../shared/http/headers.ts";
import type { ResultAccess } from "../../shared/ingress/ask-result.ts";
import type { ReadCallback } from "../../shared/ingress/read-callback.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { visible } from "../../shared/platform/text/visible.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { schemesOf, showsSecret } from "../../shared/webhook-auth/auth-modes.ts";
import { isCovered } from "../../shared/webhook-auth/coverage.ts";
import {
  fill,
  type Lookup,
  type Part,
  type RequestValues,
  toParts,
} from "../../shared/webhook-auth/template.ts";

/** The call that a proven request becomes. */
export type MadeCall = {
  call: JobCall;
  /** For a call that the sender can repeat: what a repeat must have in common with it. Empty if nothing but the id. */
  repeat: { bodySha256: string } | undefined;
  /** The receiver that the request names, if only a wildcard allows it. */
  receiverByWildcard: string | undefined;
  /** The part of the delivery id that the endpoint reads and the request lacks. */
  noId?: string | undefined;
};

/** A call, or nothing if the endpoint drops its event. */
type Made = MadeCall | { dropped: string };

type Options = {
  serviceId: number;
  metadataPrefix: string;
  readCallback: ReadCallback;
  /** How the receiver of a callback asks for the result; undefined if nobody can. */
  accessOf: ((callId: string) => ResultAccess) | undefined;
  /** Returns a random id for a call of this job. */
  newCallId: (job: JobIds) => string;
  clock: Clock;
};

/** `values` are those of this request. */
export type MakeCall = (req: IncomingMessage, values: RequestValues) => Made;

/**
 * Makes the calls of an endpoint. Throws `webhook.delivery_id_invalid`, `webhook.metadata_invalid`, `webhook.event_unrouted`,
 * `callback.refused`, `queue.overloaded` and `request.malformed`.
 */
export function createMakeCall(
  endpoint: EndpointToml,
  { serviceId, metadataPrefix, readCallback, accessOf, newCallId, clock }: Options,
): MakeCall {
  const keys = platformKeys(metadataPrefix);
  // It has a place for the call id, since an object that grows a computed key is slow to make and to write as JSON.
  const template = {
    [keys.serviceId]: String(serviceId),
    [WEBHOOK_PATH]: endpoint.path,
    ...(endpoint.name !== undefined && { [WEBHOOK_NAME]: endpoint.name }),
    [WEBHOOK_ORIGIN]: "webhook",
    [keys.callId]: "",
  };
  const ownTarget =
    endpoint.callback_url === undefined ? undefined : toTarget(new URL(endpoint.callback_url));
  const route = createRoute(endpoint);
  const readDeliveryId = createReadDeliveryId(endpoint);
  const name = createName(endpoint);
  const addTo = createAddTo(endpoint);

  return (req, values) => {
    const { body } = values;
    const { jobId, event } = route(values);
    if (jobId === undefined) return { dropped: event };
    const bodySha256 = sha256Hex(body);
    const { delivery, noId } = readDeliveryId(values);
    const named = delivery === undefined ? undefined : name(delivery, bodySha256);
    const id = named?.id ?? newCallId({ serviceId, jobIndex: jobId });
    const metadata: Record<string, string> = { ...template, [keys.callId]: id };
    if (delivery !== undefined) metadata[WEBHOOK_DELIVERY_ID] = delivery;
    addTo(metadata, req, values);
    const asked = readCallback(req, ownTarget);
    const call = toJobCall({
      id,
      origin: "webhook",
      service_id: serviceId,
      job_id: jobId,
      metadata,
      content_type: req.headers["content-type"],
      body,
      bodySha256,
      accepted_at: clock(),
      traceparent: traceparentOf(req),
      keep_result: endpoint.keep_result || asked !== undefined || undefined,
      keep_delivered: endpoint.keep_delivered,
      callback: asked && { ...asked.target, ...accessOf?.(id) },
    });
    const receiverByWildcard = asked?.byWildcard ? asked.target.receiver : undefined;
    return { call, repeat: named?.repeat, receiverByWildcard, noId };
  };
}

/** Chooses the job of a request by its event. Without a job the event is dropped. */
function createRoute({ job_id, route_by }: EndpointToml) {
  const always = { jobId: job_id, event: "" };
  if (route_by === undefined) return () => always;
  const { header, field, jobs, unmatched } = route_by;
  const template = toParts(header === undefined ? `{body:${field}}` : `{header:${header}}`);
  return (values: RequestValues) => {
    const found = fill(template, values);
    const event = "value" in found ? found.value : `(${found.problem})`;
    if ("value" in found && Object.hasOwn(jobs, event)) return { jobId: jobs[event], event };
    if (unmatched === "drop") return { jobId: undefined, event };
    throw new AppError("webhook.event_unrouted", { reason: `no job handles the event ${visible(event)}` });
  };
}

/**
 * Names the call of a delivery: the same delivery is the same call on every replica. A bearer token or an API key proves who
 * sent the id, and another body under it is a conflict. Where a signature covers the id, the id alone names the call, since
 * some senders count their tries in the body. Otherwise the body is part of the name: a stranger could take the id of another
 * body.
 */
function createName(endpoint: EndpointToml) {
  const { path, proof } = endpoint;
  const template = toParts(endpoint.delivery_id ?? "");
  const schemes = schemesOf(proof);
  const byToken = showsSecret(proof);
  const covered = schemes !== undefined && isCovered(template, schemes);
  return (deliveryId: string, bodySha256: string): { id: string; repeat: { bodySha256: string } } => {
    if (byToken) return { id: callIdOfDelivery(path, deliveryId), repeat: { bodySha256 } };
    if (covered) return { id: callIdOfSignedDelivery(path, deliveryId), repeat: { bodySha256: "" } };
    return { id: callIdFrom(path, deliveryId, bodySha256), repeat: { bodySha256 } };
  };
}

const DELIVERY_ID_BYTES_MAX = 256;
const TEXT_BYTES_MAX = 1024;
const QUERY_BYTES_MAX = 4096;

/** The sender's own id of a delivery, or the part of it that the request lacks. */
type DeliveryId = { delivery?: string; noId?: string };

function createReadDeliveryId(endpoint: EndpointToml): (values: RequestValues) => DeliveryId {
  if (endpoint.delivery_id === undefined) return () => ({});
  const template = toParts(endpoint.delivery_id);
  const eventHeaders = eventHeadersOf(endpoint);
  // Fields and event types may hold any text, and the id of a batch consists of all its ids.
  const mayBeAnyText = template.some(
    (part) => part.kind === "field" || headersOf(part).some((name) => eventHeaders.includes(name)),
  );
  const invalid = (what: string) => AppError.public("webhook.delivery_id_invalid", `the delivery id ${what}`);
  return (values) => {
    const found = fill(template, values);
    if ("problem" in found) {
      if (found.problem === "missing") return { noId: found.what };
      throw invalid(`was sent more than once (${found.what})`);
    }
    const { value } = found;
    if (value === "") throw invalid("is empty");
    const problem = headerTextProblem(value, DELIVERY_ID_BYTES_MAX);
    if (problem === undefined) return { delivery: value };
    if (mayBeAnyText) return { delivery: sha256Hex(Buffer.from(value)) };
    throw invalid(problem);
  };
}

function headersOf(part: Part): readonly string[] {
  return part.kind === "header" ? part.names : [];
}

/** The headers that the event's type is read from. */
function eventHeadersOf({ event_type = "" }: EndpointToml): readonly string[] {
  return toParts(event_type).flatMap(headersOf);
}

type AddTo = (metadata: Record<string, string>, req: IncomingMessage, values: RequestValues) => void;

/** Adds to the metadata what the sender says of the delivery, beside its body. */
function createAddTo(endpoint: EndpointToml): AddTo {
  const { event_type, forward_headers, forward_query } = endpoint;
  const eventType = event_type === undefined ? undefined : toParts(event_type);
  const eventHeaders = eventHeadersOf(endpoint);

  function forward(metadata: Record<string, string>, values: RequestValues): void {
    const before = Object.keys(metadata).length;
    for (const header of forward_headers) {
      const name = header.toLowerCase();
      const found = values.header([name]);
      const isEncodedType = eventHeaders.includes(name) && "value" in found && !HEADER_TEXT.test(found.value);
      if (!isEncodedType) put(metadata, header, found, TEXT_BYTES_MAX);
    }
    const forwarded = Object.keys(metadata).slice(before);
    if (forwarded.length > 0) metadata[WEBHOOK_FORWARDED] = forwarded.join(", ");
  }

  return (metadata, req, values) => {
    if (eventType !== undefined) putEvent(metadata, fill(eventType, values));
    const query = forward_query ? rawQuery(req.url ?? "") : "";
    if (query !== "") put(metadata, WEBHOOK_QUERY, { value: query }, QUERY_BYTES_MAX);
    if (forward_headers.length > 0) forward(metadata, values);
  };
}

/** Adds a value that the request has. An empty one counts as absent. */
function put(metadata: Record<string, string>, key: string, found: Lookup, bytesMax: number): void {
  if ("problem" in found ? found.problem === "missing" : found.value === "") return;
  const invalid = (what: string) => AppError.public("webhook.metadata_invalid", `${key} ${what}`);
  if ("problem" in found) throw invalid("was sent more than once");
  const problem = headerTextProblem(found.value, bytesMax);
  if (problem !== undefined) throw invalid(problem);
  metadata[key] = found.value;
}

/** Adds the event's type, in one of two headers: HTTP carries only visible ASCII unchanged. */
function putEvent(metadata: Record<string, string>, found: Lookup): void {
  if ("problem" in found || found.value === "" || HEADER_TEXT.test(found.value)) {
    put(metadata, WEBHOOK_EVENT, found, TEXT_BYTES_MAX);
    return;
  }
  const bytes = Buffer.from(found.value);
  if (bytes.length > TEXT_BYTES_MAX)
    throw AppError.public(
      "webhook.metadata_invalid",
      `${WEBHOOK_EVENT} is longer than ${TEXT_BYTES_MAX} bytes`,
    );
  metadata[WEBHOOK_EVENT_UTF8] = `UTF-8''${percentEncoded(bytes)}`;
}

/** Encodes all characters that an extended value must not hold (`attr-char` of RFC 8187). */
function percentEncoded(utf8: Buffer): string {
  const encoded = encodeURIComponent(utf8.toString("utf8"));
  return encoded.replace(/[*'()]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** What can be a header value of the request to the runner, without changing on the way. */
const HEADER_TEXT = /^[!-~](?:[ -~]*[!-~])?$/;

function headerTextProblem(text: string, bytesMax: number): string | undefined {
  if (text.length > bytesMax) return `is longer than ${bytesMax} bytes`;
  return HEADER_TEXT.test(text) ? undefined : "must be visible ASCII";
}
