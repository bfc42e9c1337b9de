import type { IncomingMessage } from "node:http";
import { headerText, onlyHeaderValue, rawQuery } from "../http/headers.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { parseExactJson } from "./exact-json.ts";

/** One piece of a template. */
export type Part =
  | { readonly kind: "literal"; readonly text: string }
  /** The body as the signature covers it. */
  | { readonly kind: "body" }
  /** A field of the JSON body, by JSON Pointer (RFC 6901), split at its slashes. `*` is every element of a list. */
  | { readonly kind: "field"; readonly pointer: readonly string[] }
  /** A header, by lower-case name; of several names, the first that the request has. */
  | { readonly kind: "header"; readonly names: readonly string[] }
  /** A parameter of the query, percent-decoded. */
  | { readonly kind: "query"; readonly name: string }
  /** A pair of the signature header. */
  | { readonly kind: "pair"; readonly key: string }
  /** The values, joined with dots, of the headers that a pair of the signature header names. */
  | { readonly kind: "named-headers"; readonly key: string }
  /** `timestamp` as sent; `url` as configured; `form` as Twilio writes it; the secret, for plain hashes. */
  | { readonly kind: "timestamp" | "method" | "url" | "form" | "secret" };

/** The parts of a template that a schema has checked. */
export function toParts(text: string): readonly Part[] {
  const parts = parseTemplate(text);
  if (typeof parts === "string") throw new TypeError(`the template ${parts}`);
  return parts;
}

/** Whether this is a field name (RFC 9110, section 5.1). */
export function isHeaderName(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
}

/** Whether this is a JSON Pointer (RFC 6901) to something inside the document. */
export function isPointer(text: string): boolean {
  return /^(?:\/(?:[^~/]|~[01])*)+$/.test(text);
}

const PLAIN = ["body", "timestamp", "method", "url", "form", "secret"] as const;

/**
 * Parses text with placeholders, as descriptions of senders use them: `{timestamp}.{body}`, `{header:X-GitHub-Delivery}`,
 * `{body:/data/id}`. Returns what is wrong as text.
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

/** The reference tokens of a JSON Pointer (RFC 6901). */
export function toPointer(text = ""): string[] {
  return text
    .slice(1)
    .split("/")
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** What was found of a request: text, or why there is none. */
export type Lookup =
  | { readonly value: string }
  | { readonly problem: "missing" | "repeated"; readonly what: string };

const NOTHING = Buffer.alloc(0);

/** The values of a request that templates read. The body is known once it has been read and proven. */
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

  /** Of several names, the first that the request has; that must come once. Its bytes, decoded as latin1. */
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

  /** The fields of the body, if that is a form, as Twilio signs them. Undefined if there are too many. */
  form(): Form | undefined {
    this.#form ??= { value: parseForm(this.body) };
    return this.#form.value;
  }

  /** A field of the body, if that is JSON. */
  field(pointer: readonly string[]): Lookup {
    const what = `field /${pointer.join("/")}`;
    const values = this.#valuesAt(pointer);
    if (values.some(isTooLarge))
      return { problem: "missing", what: `${what} (a large number with a point or an exponent)` };
    const texts = values.map(textOfValue);
    return texts.length === 0 || texts.includes(undefined)
      ? { problem: "missing", what }
      : { value: texts.join(",") };
  }

  #valuesAt(pointer: readonly string[]): readonly unknown[] {
    this.#json ??= { value: parseJson(this.body.toString("utf8")), isExact: false };
    const values = valuesAt(this.#json.value, pointer);
    if (this.#json.isExact || !values.some(isTooLarge)) return values;
    this.#json = { value: parseExactJson(this.body), isExact: true };
    return valuesAt(this.#json.value, pointer);
  }
}

/** The text that a template stands for in this request. It can hold literals, headers, query parameters and fields. */
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
    case "query":
      return values.query(part.name);
    case "field":
      return values.field(part.pointer);
    default:
      return { problem: "missing", what: `{${part.kind}}` };
  }
}

/** What a pointer leads to: the values of all elements of a list (`*`), or one value. Empty unless each is there. */
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

/** The text of a string, a boolean or a whole number. */
function textOfValue(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "boolean" || Number.isSafeInteger(value) ? String(value) : undefined;
}

/** Whether JSON.parse may have rounded a whole number. */
function isTooLarge(value: unknown): boolean {
  return typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER;
}

/** A form as Twilio signs it: its fields sorted by name, each name followed by its value. */
export type Form = {
  /** The name of the first field; undefined if there is none. */
  readonly first: string | undefined;
  /** One text, or two if the orders of code units and of code points differ: the sender's libraries differ too. */
  readonly texts: readonly string[];
};

/** Senders of forms send a few dozen fields. */
const FORM_FIELDS_MAX = 1000;
const AMPERSAND = 0x26;

/** Undefined for more than 1,000 fields, which nobody has to sort before anything is proven. */
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

/** Of a repeated name each distinct value stands once. */
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

/** The order of code points is that of the bytes in UTF-8. */
function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
