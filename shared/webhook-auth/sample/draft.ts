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
 * Sets a header that may have one of several names. It uses the name that the draft already has, otherwise the first.
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
 * Sets a field of the JSON body by JSON Pointer. A number in the body stays a number. A body that is not a JSON object
 * or list stays unchanged.
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

/** Converts at most 15 digits to their number, and any other text to a number from its hash. */
function toNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  return Number.parseInt(sha256Hex(Buffer.from(text)).slice(0, HEX_DIGITS_OF_NUMBER), 16);
}

/** Matches the placeholders of a template that read a value of a request. */
const VALUES = /\{(?:header|body|query|cloudevent):[^{}]+\}/g;

/**
 * Writes an event's type to its places in the request. For example, `issues.opened` in `{body:/type}.{body:/action}`
 * sets two fields.
 */
export function withEvent(draft: Draft, template: string, event: string): Draft {
  const places = template.match(VALUES) ?? [];
  const form = template.split(VALUES).map((text) => text.replace(/[$()*+.?[\\\]^{|}/-]/g, "\\$&"));
  const values = new RegExp(`^${form.join("(.+?)")}$`).exec(event)?.slice(1) ?? [event];
  return values.reduce((next, value, at) => withValue(next, places[at] ?? "", value), draft);
}

/**
 * Writes a delivery's id to its place in the request. With several places, it uses the first that does not hold the
 * event's type.
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
