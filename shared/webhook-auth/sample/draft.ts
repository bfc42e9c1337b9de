import { sha256Hex } from "../../platform/crypto/compare.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import { toParts } from "../template.ts";

/** A delivery that is not complete yet. */
export type Draft = {
  readonly method: string;
  /** Path and query, as in the request line. */
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
};

/**
 * Sets a header that may have one of several names. If the draft already has a header with one of these names, sets
 * that header. Otherwise it uses the first name.
 */
export function withHeader(draft: Draft, names: readonly string[], value: string): Draft {
  const isNamed = (name: string) => names.some((each) => each.toLowerCase() === name.toLowerCase());
  const name = draft.headers.map(([each]) => each).find(isNamed) ?? names[0] ?? "";
  return { ...draft, headers: [...draft.headers.filter(([each]) => each !== name), [name, value]] };
}

export function withQuery(draft: Draft, name: string, value: string): Draft {
  const pair = `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
  return { ...draft, target: `${draft.target}${draft.target.includes("?") ? "&" : "?"}${pair}` };
}

/**
 * Sets the field at this JSON Pointer in a JSON body. If the field has a number, text is converted to a number. A body
 * that is not a JSON object or list stays unchanged.
 */
export function withField(draft: Draft, pointer: readonly string[], value: string | number): Draft {
  const json = parseJson(draft.body.toString("utf8"));
  if (typeof json !== "object" || json === null) return draft;
  return { ...draft, body: Buffer.from(JSON.stringify(changed(json, pointer, value))) };
}

function changed(json: unknown, [token, ...rest]: readonly string[], value: string | number): unknown {
  if (token === undefined)
    return typeof json === "number" && typeof value === "string" ? toNumber(value) : value;
  if (Array.isArray(json))
    return json.map((each, at) =>
      token === "*" || token === String(at) ? changed(each, rest, value) : each,
    );
  const table = typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
  return { ...table, [token]: changed(table[token], rest, value) };
}

const HEX_DIGITS_OF_NUMBER = 12;

/**
 * Converts a text to a number. Up to 15 digits become the number that they form. Any other text becomes a number made
 * from its hash.
 */
function toNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  return Number.parseInt(sha256Hex(Buffer.from(text)).slice(0, HEX_DIGITS_OF_NUMBER), 16);
}

/** Matches the placeholders of a template that read a value of a request. */
const VALUES = /\{(?:header|body|query|cloudevent):[^{}]+\}/g;

/**
 * Writes an event type to the places from which the endpoint's template reads it. For example, with the template
 * `{body:/type}.{body:/action}`, the event type `issues.opened` sets two fields.
 */
export function withEvent(draft: Draft, template: string, event: string): Draft {
  const places = template.match(VALUES) ?? [];
  const form = template.split(VALUES).map((text) => text.replace(/[$()*+.?[\\\]^{|}/-]/g, "\\$&"));
  const values = new RegExp(`^${form.join("(.+?)")}$`).exec(event)?.slice(1) ?? [event];
  return values.reduce((next, value, at) => withValue(next, places[at] ?? "", value), draft);
}

/**
 * Writes a delivery id to the place from which the endpoint's template reads it. If the template reads several places,
 * uses the first from which no event type is read.
 */
export function withId(draft: Draft, template: string, event: string, id: string): Draft {
  const place = (template.match(VALUES) ?? []).find((each) => !event.includes(each));
  return place === undefined ? draft : withValue(draft, place, id);
}

/** Writes a value to the place that this placeholder reads. */
export function withValue(draft: Draft, place: string, value: string): Draft {
  const [part] = toParts(place);
  switch (part?.kind) {
    case "header":
      return withHeader(draft, place.slice("{header:".length, -1).split("|"), value);
    case "field":
      return withField(draft, part.pointer, value);
    case "query":
      return withQuery(draft, part.name, value);
    case "cloudevent": // samples use the binary mode
      return withHeader(draft, [`ce-${part.name}`], encodeURIComponent(value));
    default:
      return draft;
  }
}

/** Returns the placeholders of a template that read a value of the request. */
export function placesIn(template: string): readonly string[] {
  return template.match(VALUES) ?? [];
}
