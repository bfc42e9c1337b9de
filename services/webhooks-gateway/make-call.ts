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
import { parseJson } from "../../shared/platform/text/parse-json.ts";
import { visible } from "../../shared/platform/text/visible.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { isOfOneAccount, showsSecret } from "../../shared/webhook-auth/auth-modes.ts";
import { isSignedBy } from "../../shared/webhook-auth/coverage.ts";
import { compileFilter } from "../../shared/webhook-auth/filter/filter.ts";
import {
  fill,
  type Lookup,
  type Part,
  type RequestValues,
  readsJson,
  toParts,
} from "../../shared/webhook-auth/template.ts";

/** Call made from a verified request. */
export type MadeCall = {
  call: JobCall;
  /**
   * Hash that the body of a repeat must have. If it is empty, a delivery with the same delivery id is a repeat, with
   * any body. Undefined if the call has no delivery id, so that no repeat can be recognised.
   */
  repeat: { bodySha256: string } | undefined;
  /**
   * Receiver that the request names for the call's callback. Undefined unless only a wildcard of `callback_hosts`
   * allows it: such receivers are counted (shared/ingress/named-receivers.ts).
   */
  receiverByWildcard: string | undefined;
  /** Part of the configured delivery id that the request lacks, for the log. Undefined if the request has all parts. */
  noId?: string | undefined;
};

/** An event that the endpoint does not handle, and the configuration key that excludes it. */
export type Dropped = { event: string; by: "route_by" | "when" };

/** A call, or the dropped event. */
type Made = MadeCall | { dropped: Dropped };

type Options = {
  serviceId: number;
  metadataPrefix: string;
  readCallback: ReadCallback;
  /**
   * Returns the token and URL with which the receiver of a call's callback can read the call's result. Undefined if the
   * gateway has no secret for result tokens.
   */
  accessOf: ((callId: string) => ResultAccess) | undefined;
  /** Returns a random id for a call of this job. */
  newCallId: (job: JobIds) => string;
  clock: Clock;
};

/** Makes the call of a request. `values` must belong to `req`. */
export type MakeCall = (req: IncomingMessage, values: RequestValues) => Made;

/**
 * Creates the function that makes an endpoint's calls. It throws `webhook.delivery_id_invalid`,
 * `webhook.metadata_invalid`, `webhook.event_unrouted`, `webhook.filter_failed`, `callback.refused`, `queue.overloaded`
 * and `request.malformed`.
 */
export function createMakeCall(
  endpoint: EndpointToml,
  { serviceId, metadataPrefix, readCallback, accessOf, newCallId, clock }: Options,
): MakeCall {
  const keys = platformKeys(metadataPrefix);
  // The template already has an empty value for the call id. The call id's key is computed from the metadata prefix. If
  // a computed key is added to an object later, the object is slow to create and to serialize.
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
  const nameCall = createNameCall(endpoint);
  const addMetadata = createAddMetadata(endpoint);

  return (req, values) => {
    const { body } = values;
    const routed = route(req, values);
    if ("dropped" in routed) return routed;
    const { jobId } = routed;
    const bodySha256 = sha256Hex(body);
    const { delivery, noId } = readDeliveryId(values);
    const named = delivery === undefined ? undefined : nameCall(delivery, bodySha256);
    const id = named?.id ?? newCallId({ serviceId, jobIndex: jobId });
    const metadata: Record<string, string> = { ...template, [keys.callId]: id };
    if (delivery !== undefined) metadata[WEBHOOK_DELIVERY_ID] = delivery;
    addMetadata(metadata, req, values);
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

/**
 * Creates the function that chooses a request's job by its event (`route_by`) and then applies the endpoint's filter
 * (`when`). An event without a job is dropped before the filter runs. So the filter cannot refuse, with an error, an
 * event that would be dropped anyway.
 */
function createRoute(endpoint: EndpointToml) {
  const jobOf = createJobOf(endpoint);
  const isForEndpoint = endpoint.when === undefined ? undefined : compileFilter(endpoint.when);
  const refuses = endpoint.route_by?.unmatched === "refuse";

  function unmatched(event: string, by: Dropped["by"]): { dropped: Dropped } {
    if (!refuses) return { dropped: { event, by } };
    const why = by === "when" ? "when is false for" : "no job handles";
    throw new AppError("webhook.event_unrouted", { reason: `${why} the event ${visible(event)}` });
  }

  return (req: IncomingMessage, values: RequestValues): { jobId: number } | { dropped: Dropped } => {
    const { jobId, event } = jobOf(values);
    if (jobId === undefined) return unmatched(event, "route_by");
    if (isForEndpoint?.(req, values.body) === false) return unmatched(event, "when");
    return { jobId };
  };
}

type JobOf = (values: RequestValues) => { jobId: number | undefined; event: string };

function createJobOf({ job_id, route_by }: EndpointToml): JobOf {
  const always = { jobId: job_id, event: "" };
  if (route_by === undefined) return () => always;
  const { header, field, jobs } = route_by;
  const template = toParts(header === undefined ? `{body:${field}}` : `{header:${header}}`);
  return (values) => {
    const found = fill(template, values);
    if ("problem" in found) return { jobId: undefined, event: `(${found.problem})` };
    const { value: event } = found;
    return { jobId: Object.hasOwn(jobs, event) ? jobs[event] : undefined, event };
  };
}

/**
 * Creates the function that derives a call's id from the delivery id. All replicas then give the same delivery the same
 * call id. If two deliveries have the same delivery id and different bodies, the second one is a repeat, a conflict or
 * another call. The kind of credential decides which.
 *
 * - If the request contains a secret, such as a bearer token, only the sender can choose the delivery id. Another body is
 *   a conflict.
 * - If a signature covers the delivery id, another body is a repeat, because some senders count their attempts in the
 *   body.
 * - A signed token (JWT) covers no part of the request. If the endpoint accepts the tokens of one account, only that
 *   account chooses the ids, and another body is a repeat. If it accepts several accounts, another body is a conflict,
 *   because one account could use another's id.
 * - In all other cases a stranger could send another body with the same delivery id. So another body is another call.
 */
function createNameCall(endpoint: EndpointToml) {
  const { path, proof } = endpoint;
  const template = toParts(endpoint.delivery_id ?? "");
  const isJwt = proof.by === "jwt";
  const covered = isJwt ? isOfOneAccount(proof) : isSignedBy(template, proof);
  const byToken = showsSecret(proof) || (isJwt && !covered);
  return (deliveryId: string, bodySha256: string): { id: string; repeat: { bodySha256: string } } => {
    if (byToken) return { id: callIdOfDelivery(path, deliveryId), repeat: { bodySha256 } };
    if (covered) return { id: callIdOfSignedDelivery(path, deliveryId), repeat: { bodySha256: "" } };
    return { id: callIdFrom(path, deliveryId, bodySha256), repeat: { bodySha256 } };
  };
}

const DELIVERY_ID_BYTES_MAX = 256;
const TEXT_BYTES_MAX = 1024;
const QUERY_BYTES_MAX = 4096;

/** Delivery id of a request, or the part of the configured id that the request lacks. */
type DeliveryId = { delivery?: string; noId?: string };

function createReadDeliveryId(endpoint: EndpointToml): (values: RequestValues) => DeliveryId {
  if (endpoint.delivery_id === undefined) return () => ({});
  const template = toParts(endpoint.delivery_id);
  const eventHeaders = eventHeadersOf(endpoint);
  // The runner gets the delivery id in a header, which must be short and visible ASCII. An id from a field or from the
  // event type may be any text, and the id of a batch may be long. If such an id does not fit into a header, its hash
  // is the delivery id.
  const mayBeAnyText = template.some(
    (part) => readsJson(part) || headersOf(part).some((name) => eventHeaders.includes(name)),
  );
  const isUnreadable = createIsUnreadable(endpoint, template);
  const invalid = (what: string) => AppError.public("webhook.delivery_id_invalid", `the delivery id ${what}`);
  return (values) => {
    const found = fill(template, values);
    if ("problem" in found) {
      if (isUnreadable(values.body)) throw invalid("is missing: the decoded body is not JSON");
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

/**
 * Returns a function that tells whether a body may have been decoded wrongly. A signature of the received bytes does
 * not cover the header Content-Encoding. So a stranger can send a recorded compressed delivery again without that
 * header, or with another coding. Its signature is valid, but the delivery id in its body cannot be read. Unless it is
 * refused, it becomes a new call each time.
 */
function createIsUnreadable({ proof, encoded_bodies }: EndpointToml, template: readonly Part[]) {
  const isDecodedAfter = encoded_bodies === "decode" && proof.by === "schemes" && proof.over === "received";
  if (!isDecodedAfter || !template.some(readsJson)) return () => false;
  return (body: Buffer) => parseJson(body.toString("utf8")) === undefined;
}

function headersOf(part: Part): readonly string[] {
  return part.kind === "header" ? part.names : [];
}

/** Returns the headers from which the endpoint reads the event type. */
function eventHeadersOf({ event_type = "" }: EndpointToml): readonly string[] {
  return toParts(event_type).flatMap(headersOf);
}

type AddMetadata = (metadata: Record<string, string>, req: IncomingMessage, values: RequestValues) => void;

/** Creates the function that adds the event type, the query and the forwarded headers to the metadata. */
function createAddMetadata(endpoint: EndpointToml): AddMetadata {
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

/** Adds a value of the request to the metadata, unless it is missing or empty. */
function put(metadata: Record<string, string>, key: string, found: Lookup, bytesMax: number): void {
  if ("problem" in found ? found.problem === "missing" : found.value === "") return;
  const invalid = (what: string) => AppError.public("webhook.metadata_invalid", `${key} ${what}`);
  if ("problem" in found) throw invalid("was sent more than once");
  const problem = headerTextProblem(found.value, bytesMax);
  if (problem !== undefined) throw invalid(problem);
  metadata[key] = found.value;
}

/**
 * Adds the event type. The runner gets it as a header, and HTTP may change text that is not visible ASCII. Such an
 * event type is therefore encoded, and put into a header of its own.
 */
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

/** Encodes all characters that an extended header value must not contain (`attr-char` of RFC 8187). */
function percentEncoded(utf8: Buffer): string {
  const encoded = encodeURIComponent(utf8.toString("utf8"));
  return encoded.replace(/[*'()]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Text that arrives unchanged at the runner as a header value. */
const HEADER_TEXT = /^[!-~](?:[ -~]*[!-~])?$/;

function headerTextProblem(text: string, bytesMax: number): string | undefined {
  if (text.length > bytesMax) return `is longer than ${bytesMax} bytes`;
  return HEADER_TEXT.test(text) ? undefined : "must be visible ASCII";
}
