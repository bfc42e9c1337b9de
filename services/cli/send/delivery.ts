import { randomUUID } from "node:crypto";
import type { EndpointToml } from "../../../shared/config/endpoint-toml.ts";
import { rawQuery } from "../../../shared/http/headers.ts";
import { bodyIn, bodyOf, isJson } from "../body.ts";
import { withCredential } from "./credential.ts";
import { type Draft, withEvent, withHeader, withId } from "./draft.ts";
import { PLAIN_SAMPLE, SAMPLES, type Sample } from "./samples.ts";
import type { SendOptions, Target } from "./target.ts";

/** The delivery as the endpoint's sender would make it now, with a new id. */
export function makeDelivery(target: Target, options: SendOptions, at: Date): Draft {
  const id = options.deliveryId ?? randomUUID();
  const own = options.header ?? [];
  const draft = withOwn(draftOf(target, options, id), own);
  return withOwn(withCredential(draft, target, at, id), own);
}

function withOwn(draft: Draft, headers: readonly (readonly [string, string])[]): Draft {
  return headers.reduce((next, [name, value]) => withHeader(next, [name], value), draft);
}

function draftOf({ url, endpoint }: Target, options: SendOptions, id: string): Draft {
  const { delivery_id = "", public_url = "" } = endpoint;
  const sample: Sample = SAMPLES[endpoint.preset ?? ""] ?? PLAIN_SAMPLE;
  const body = options.body === undefined ? bytesOf(sample) : readBody(options.body);
  const query = url.search || (rawQuery(public_url) && `?${rawQuery(public_url)}`);
  let draft: Draft = {
    method: endpoint.methods[0] ?? "POST",
    target: `${url.pathname}${query}`,
    headers: [["Content-Type", typeOf(body, sample)], ...Object.entries(sample.headers ?? {})],
    body,
  };
  const event = options.event ?? sample.event;
  const eventType = eventTemplate(endpoint);
  if (options.event !== undefined && eventType === "")
    throw new Error("--event cannot be used: the sender of this endpoint sends no event type");
  if (event !== undefined) draft = withEvent(draft, eventType, event);
  const identified = withId(draft, delivery_id, eventType, id);
  // A body of somebody's own keeps its id, unless another is asked for.
  const keepsId =
    options.body !== undefined && options.deliveryId === undefined && identified.body !== draft.body;
  return keepsId ? draft : identified;
}

function eventTemplate({ event_type, route_by }: EndpointToml): string {
  if (event_type !== undefined) return event_type;
  if (route_by?.header !== undefined) return `{header:${route_by.header}}`;
  return route_by?.field === undefined ? "" : `{body:${route_by.field}}`;
}

function bytesOf({ body }: Sample): Buffer {
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

const STDIN = 0;

function readBody(text: string): Buffer {
  if (!text.startsWith("@")) return bodyOf(text);
  return bodyIn(text === "@-" ? STDIN : text.slice(1));
}

/** JSON if it is that; else a form if this sender sends forms. */
function typeOf(body: Buffer, sample: Sample): string {
  if (isJson(body)) return "application/json";
  return typeof sample.body === "string" ? "application/x-www-form-urlencoded" : "text/plain";
}
