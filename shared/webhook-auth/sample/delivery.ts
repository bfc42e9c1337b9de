import { rawQuery } from "../../http/headers.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import { withCredential } from "./credential.ts";
import { type Draft, withEvent, withHeader, withId } from "./draft.ts";
import { PLAIN_SAMPLE, SAMPLES, type Sample } from "./samples.ts";
import type { SampledEndpoint, Sender } from "./sender.ts";

/** Parts that replace those of the sample. */
export type Replaced = {
  readonly event?: string | undefined;
  readonly body?: Buffer | undefined;
  readonly headers?: readonly (readonly [name: string, value: string])[] | undefined;
  /** Without it, a replaced body keeps its id. */
  readonly deliveryId?: string | undefined;
};

/** The sample of a sender as it would send it at this time. Throws what is missing for it. */
export function makeDelivery(sender: Sender, newId: string, at: Date, replaced: Replaced = {}): Draft {
  const id = replaced.deliveryId ?? newId;
  const own = replaced.headers ?? [];
  const draft = withOwn(draftOf(sender, id, replaced), own);
  return withOwn(withCredential(draft, sender, at, id), own);
}

function withOwn(draft: Draft, headers: readonly (readonly [string, string])[]): Draft {
  return headers.reduce((next, [name, value]) => withHeader(next, [name], value), draft);
}

function draftOf({ url, endpoint }: Sender, id: string, replaced: Replaced): Draft {
  const { delivery_id = "", public_url = "" } = endpoint;
  const sample: Sample = SAMPLES[endpoint.preset ?? ""] ?? PLAIN_SAMPLE;
  const body = replaced.body ?? bytesOf(sample);
  const query = url.search || (rawQuery(public_url) && `?${rawQuery(public_url)}`);
  let draft: Draft = {
    method: endpoint.methods[0] ?? "POST",
    target: `${url.pathname}${query}`,
    headers: [["Content-Type", typeOf(body, sample)], ...Object.entries(sample.headers ?? {})],
    body,
  };
  const event = replaced.event ?? sample.event;
  const eventType = eventTemplate(endpoint);
  if (replaced.event !== undefined && eventType === "")
    throw new Error("the sender of this endpoint sends no event type, so none can be chosen");
  if (event !== undefined) draft = withEvent(draft, eventType, event);
  const identified = withId(draft, delivery_id, eventType, id);
  const keepsId =
    replaced.body !== undefined && replaced.deliveryId === undefined && identified.body !== draft.body;
  return keepsId ? draft : identified;
}

function eventTemplate({ event_type, route_by }: SampledEndpoint): string {
  if (event_type !== undefined) return event_type;
  if (route_by?.header !== undefined) return `{header:${route_by.header}}`;
  return route_by?.field === undefined ? "" : `{body:${route_by.field}}`;
}

function bytesOf({ body }: Sample): Buffer {
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

/** JSON if it is that; else a form if this sender sends forms. */
function typeOf(body: Buffer, sample: Sample): string {
  const text = body.toString("utf8");
  if (parseJson(text) !== undefined && Buffer.from(text).equals(body)) return "application/json";
  return typeof sample.body === "string" ? "application/x-www-form-urlencoded" : "text/plain";
}
