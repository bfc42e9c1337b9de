import type { IncomingMessage } from "node:http";
import { headerText, onlyHeaderValue, rawQuery } from "../http/headers.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { parseExactJson } from "./exact-json.ts";

/** One piece of a template. */
export type Part =
  | { readonly kind: "literal"; readonly text: string }
  /** The whole body, in the form that the signature covers (received or decoded). */
  | { readonly kind: "body" }
  /** Field of the JSON body: a JSON Pointer (RFC 6901), split at its slashes. `*` means every element of a list. */
  | { readonly kind: "field"; readonly pointer: readonly string[] }
  /** Header, by lower-case name. If there are several names, the first header that the request has is read. */
  | { readonly kind: "header"; readonly names: readonly string[] }
  /**
   * Attribute of a CloudEvent (`RequestValues.cloudEvent`), by name. The content type decides whether it is read from a
   * header or from a field.
   */
  | { readonly kind: "cloudevent"; readonly name: string }
  /** Query parameter, percent-decoded. */
  | { readonly kind: "query"; readonly name: string }
  /** Value of a pair such as `t=1` in a signature header that is a list, such as `t=1,v1=ab`. */
  | { readonly kind: "pair"; readonly key: string }
  /** Headers that a pair such as `h=a b` of the sent signature lists. Their values are joined with dots. */
  | { readonly kind: "named-headers"; readonly key: string }
  /**
   * `timestamp`: the time of the signature, as sent. `method`: the request's method. `url`: the configured URL of the
   * endpoint. `form`: the fields of a form body, sorted and joined, as Twilio signs them. `secret`: the endpoint's
   * secret, for hashes without a key.
   */
  | { readonly kind: "timestamp" | "method" | "url" | "form" | "secret" };

/** Returns the parts of a template that a schema has already checked. */
export function toParts(text: string): readonly Part[] {
  const parts = parseTemplate(text);
  if (typeof parts === "string") throw new TypeError(`the template ${parts}`);
  return parts;
}

/** Returns whether a part may read the parsed body. */
export function readsJson({ kind }: Part): boolean {
  return kind === "field" || kind === "cloudevent";
}

/** Returns whether this is a header name (RFC 9110, section 5.1). */
export function isHeaderName(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
}

/** Returns whether this is a JSON Pointer (RFC 6901) to a value inside the document. */
export function isPointer(text: string): boolean {
  return /^(?:\/(?:[^~/]|~[01])*)+$/.test(text);
}

const PLAIN = ["body", "timestamp", "method", "url", "form", "secret"] as const;

/**
 * Parses a template of a sender's description, such as `{timestamp}.{body}`, `{header:X-GitHub-Delivery}` or
 * `{body:/data/id}`. Returns the problem as text.
 */
export function parseTemplate(text: string): readonly Part[] | string {
  const parts: Part[] = [];
  for (const [piece] of text.matchAll(/\{[^{}]*\}|[^{}]+|[{}]/g)) {
    if (piece === "{" || piece === "}") return `has a brace that is not part of a placeholder: ${text}`;
    const part = piece.startsWith("{")
      ? placeholder(piece.slice(1, -1))
      : ({ kind: "literal", text: piece } as const);
    if (part === undefined) return `has an unknown placeholder: ${piece}`;
    parts.push(part);
  }
  return parts;
}

function placeholder(inner: string): Part | undefined {
  const plain = PLAIN.find((kind) => kind === inner);
  if (plain !== undefined) return { kind: plain };
  const colon = inner.indexOf(":");
  const argument = inner.slice(colon + 1);
  if (colon === -1 || argument === "") return undefined;
  switch (inner.slice(0, colon)) {
    case "body":
      return isPointer(argument) ? { kind: "field", pointer: toPointer(argument) } : undefined;
    case "header": {
      const names = argument.toLowerCase().split("|");
      return names.every(isHeaderName) ? { kind: "header", names } : undefined;
    }
    case "cloudevent":
      return /^[a-z0-9]{1,20}$/.test(argument) ? { kind: "cloudevent", name: argument } : undefined;
    case "query":
      return { kind: "query", name: argument };
    case "pair":
      return { kind: "pair", key: argument };
    case "named-headers":
      return { kind: "named-headers", key: argument };
    default:
      return undefined;
  }
}

/** Splits a JSON Pointer into its reference tokens (RFC 6901). */
export function toPointer(text = ""): string[] {
  return text
    .slice(1)
    .split("/")
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Text that was found in a request, or why it was not found. */
export type Lookup =
  | { readonly value: string }
  | { readonly problem: "missing" | "repeated"; readonly what: string };

/** Texts of all elements of a list, or why they were not found. */
export type Lookups = { readonly values: readonly string[] } | Exclude<Lookup, { readonly value: string }>;

const NOTHING = Buffer.alloc(0);

/** Values of a request that templates read. */
export class RequestValues {
  /** Empty before the body has been read. */
  readonly body: Buffer;
  readonly #req: IncomingMessage;
  #json: { readonly value: unknown; readonly isExact: boolean } | undefined;
  #form: { readonly value: Form | undefined } | undefined;

  constructor(req: IncomingMessage, body: Buffer = NOTHING) {
    this.#req = req;
    this.body = body;
  }

  /**
   * Returns the value of the first of these headers that the request has. That header must occur exactly once. In the
   * value, each character is one byte (latin1).
   */
  header(names: readonly string[]): Lookup {
    for (const name of names) {
      const found = onlyHeaderValue(this.#req, name);
      if ("value" in found) return found;
      if (found.problem === "repeated") return { problem: "repeated", what: `header ${name}` };
    }
    return { problem: "missing", what: `header ${names.join(" or ")}` };
  }

  query(name: string): Lookup {
    const [value, ...more] = new URLSearchParams(rawQuery(this.#req.url ?? "")).getAll(name);
    const what = `query parameter ${name}`;
    if (value === undefined) return { problem: "missing", what };
    return more.length > 0 ? { problem: "repeated", what } : { value };
  }

  /** Returns the fields of a form as Twilio signs them. Undefined if there are too many. */
  form(): Form | undefined {
    this.#form ??= { value: parseForm(this.body) };
    return this.#form.value;
  }

  /**
   * Returns a field of a JSON body. If the pointer has a `*`, joins the values of all elements of the list with commas.
   */
  field(pointer: readonly string[]): Lookup {
    const found = this.fields(pointer);
    return "problem" in found ? found : { value: found.values.join(",") };
  }

  /**
   * Returns the values at a pointer in a JSON body. Without a `*` there is one. With a `*` there is one for each
   * element of the list, which must not be empty.
   */
  fields(pointer: readonly string[]): Lookups {
    const what = `field /${pointer.join("/")}`;
    const values = this.#valuesAt(pointer);
    if (values.some(isTooLarge))
      return { problem: "missing", what: `${what} (a large number with a point or an exponent)` };
    const texts = values.map(textOfValue);
    const areThere = texts.length > 0 && texts.every((text) => text !== undefined);
    return areThere ? { values: texts } : { problem: "missing", what };
  }

  /**
   * Returns an attribute of a CloudEvent (CloudEvents 1.0, HTTP protocol binding, section 3). The content type shows
   * the mode in which it was sent. The attribute is a field of the body in structured mode, a field of each event in
   * batched mode, and a header in binary mode.
   */
  cloudEvent(name: string): Lookup {
    const type = this.#req.headers["content-type"]?.toLowerCase() ?? "";
    if (type.startsWith("application/cloudevents-batch")) return this.field(["*", name]);
    if (type.startsWith("application/cloudevents")) return this.field([name]);
    const found = this.header([`ce-${name}`]);
    return "value" in found ? { value: percentDecoded(found.value) } : found;
  }

  #valuesAt(pointer: readonly string[]): readonly unknown[] {
    this.#json ??= { value: parseJson(this.body.toString("utf8")), isExact: false };
    const values = valuesAt(this.#json.value, pointer);
    if (this.#json.isExact || !values.some(isTooLarge)) return values;
    this.#json = { value: parseExactJson(this.body), isExact: true };
    return valuesAt(this.#json.value, pointer);
  }
}

/**
 * Fills a template with values of this request. Some placeholders, such as {timestamp}, are only for the template of
 * the signed bytes. Their values count as missing.
 */
export function fill(template: readonly Part[], values: RequestValues): Lookup {
  let text = "";
  for (const part of template) {
    const found = textOf(part, values);
    if ("problem" in found) return found;
    text += found.value;
  }
  return { value: text };
}

function textOf(part: Part, values: RequestValues): Lookup {
  switch (part.kind) {
    case "literal":
      return { value: part.text };
    case "header": {
      const found = values.header(part.names);
      return "value" in found ? { value: headerText(found.value) } : found;
    }
    case "cloudevent":
      return values.cloudEvent(part.name);
    case "query":
      return values.query(part.name);
    case "field":
      return values.field(part.pointer);
    default:
      return { problem: "missing", what: `{${part.kind}}` };
  }
}

/**
 * Decodes the percent-encoding of a CloudEvents header (HTTP binding, section 3.1.3.2). Other text is returned
 * unchanged.
 */
function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Returns the values at a pointer: one value, or with a `*` those of all elements of the list. Returns none if any of
 * them does not exist.
 */
function valuesAt(json: unknown, pointer: readonly string[]): readonly unknown[] {
  const [token, ...rest] = pointer;
  if (token === undefined) return [json];
  if (token === "*") {
    if (!Array.isArray(json)) return [];
    const ofElements = json.map((element) => valuesAt(element, rest));
    return ofElements.some((values) => values.length === 0) ? [] : ofElements.flat();
  }
  if (typeof json !== "object" || json === null || !Object.hasOwn(json, token)) return [];
  return valuesAt((json as Record<string, unknown>)[token], rest);
}

/** Returns the text of a string, a boolean or a whole number. */
function textOfValue(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "boolean" || Number.isSafeInteger(value) ? String(value) : undefined;
}

/** Returns whether this may be a whole number that JSON.parse has rounded. */
function isTooLarge(value: unknown): boolean {
  return typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER;
}

/** A form as Twilio signs it: fields sorted by name, each name followed by its value. */
export type Form = {
  /** Name of the first field; undefined for an empty form. */
  readonly first: string | undefined;
  /**
   * Texts that the sender may have signed. Some of its libraries sort by code units, others by code points. There are
   * two texts if these orders differ.
   */
  readonly texts: readonly string[];
};

/** Limit on fields. Real forms have a few dozen. */
const FORM_FIELDS_MAX = 1000;
const AMPERSAND = 0x26;

/**
 * Parses a form. Returns undefined for more than FORM_FIELDS_MAX fields. They would have to be sorted before the
 * request is verified, so a stranger could keep the process busy.
 */
function parseForm(body: Buffer): Form | undefined {
  let fields = 1;
  for (let at = body.indexOf(AMPERSAND); at !== -1; at = body.indexOf(AMPERSAND, at + 1)) {
    fields += 1;
    if (fields > FORM_FIELDS_MAX) return undefined;
  }
  const values = new Map<string, Set<string>>();
  for (const [name, value] of new URLSearchParams(body.toString("utf8"))) {
    const known = values.get(name);
    if (known === undefined) values.set(name, new Set([value]));
    else known.add(value);
  }
  const texts = [byCodeUnit, byCodePoint].map((order) => sortedText(values, order));
  return { first: [...values.keys()].sort(byCodeUnit)[0], texts: [...new Set(texts)] };
}

type Order = (a: string, b: string) => number;

/** Joins the sorted fields. Each distinct value of a repeated name occurs once. */
function sortedText(values: ReadonlyMap<string, ReadonlySet<string>>, order: Order): string {
  return [...values]
    .sort(([a], [b]) => order(a, b))
    .flatMap(([name, ofName]) => [...ofName].sort(order).map((value) => name + value))
    .join("");
}

function byCodeUnit(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Compares by code points, which is the order of the UTF-8 bytes. */
function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
