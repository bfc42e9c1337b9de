import { decodeStrictly } from "../../platform/text/strict-base64.ts";
import { rejected } from "../rejected.ts";

/*
 * Dictionaries of structured fields (RFC 9651), which carry signatures and digests. By the RFC, the last of two equal
 * keys counts. Here a repeated key or parameter is refused. Not all programs follow the RFC, so a proxy and this
 * gateway could each use a different one.
 */

/** A token or decimal, as sent. It is kept as text, because no signature uses one. */
type Other = { readonly text: string };
export type BareItem = string | number | boolean | Buffer | Other;
export type Parameters = ReadonlyMap<string, BareItem>;
export type Item = { readonly value: BareItem; readonly parameters: Parameters };
export type Member = { readonly value: BareItem | readonly Item[]; readonly parameters: Parameters };

const KEY = /[a-z*][a-z0-9_.*-]*/y;
// The group matches one character at a time. With a repetition inside the group, every way to split a string without
// its end quote would be tried, in exponential time.
const STRING = /"(?:[ !#-[\]-~]|\\["\\])*"/y;
const BYTES = /:[A-Za-z0-9+/]*={0,2}:/y;
const BOOLEAN = /\?[01]/y;
const INTEGER = /-?\d{1,15}(?![\d.])/y;
const OTHER = /-?\d{1,12}\.\d{1,3}(?![\d.])|[A-Za-z*][\w!#$%&'*+.^`|~:/-]*/y;

/**
 * Parses the members of a dictionary. Throws `webhook.credential_rejected`. `what` names the header in the reason that
 * operators see.
 */
export function parseDictionary(text: string, what: string): ReadonlyMap<string, Member> {
  const reader = new Reader(text, what);
  const members = new Map<string, Member>();
  reader.read(/ */y);
  do {
    const key = reader.need(KEY);
    if (members.has(key)) throw rejected("repeated", `a key of ${what}`);
    members.set(key, reader.member());
    reader.read(/[ \t]*/y);
  } while (reader.read(/,[ \t]*/y) !== undefined);
  reader.end();
  return members;
}

class Reader {
  readonly #text: string;
  readonly #what: string;
  #at = 0;

  constructor(text: string, what: string) {
    this.#text = text;
    this.#what = what;
  }

  /**
   * Reads the text at the current position if the pattern matches there. All patterns have the flag `y` (sticky), so
   * none searches ahead.
   */
  read(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  need(pattern: RegExp): string {
    const found = this.read(pattern);
    if (found === undefined) throw this.#malformed();
    return found;
  }

  end(): void {
    if (this.#at < this.#text.length) throw this.#malformed();
  }

  /** Reads the value after a dictionary's key: an item or a list. If it is omitted, the value is true. */
  member(): Member {
    if (this.read(/=/y) === undefined) return { value: true, parameters: this.#parameters() };
    if (this.read(/\( */y) === undefined) return this.#item();
    const items: Item[] = [];
    while (this.read(/\)/y) === undefined) {
      items.push(this.#item());
      this.need(/ +|(?=\))/y);
    }
    return { value: items, parameters: this.#parameters() };
  }

  #item(): Item {
    return { value: this.#bareItem(), parameters: this.#parameters() };
  }

  #parameters(): Parameters {
    const parameters = new Map<string, BareItem>();
    while (this.read(/; */y) !== undefined) {
      const key = this.need(KEY);
      if (parameters.has(key)) throw rejected("repeated", `a parameter in ${this.#what}`);
      parameters.set(key, this.read(/=/y) === undefined ? true : this.#bareItem());
    }
    return parameters;
  }

  #bareItem(): BareItem {
    const string = this.read(STRING);
    if (string !== undefined) return string.slice(1, -1).replace(/\\(.)/g, "$1");
    const bytes = this.read(BYTES);
    if (bytes !== undefined) return this.#decode(bytes.slice(1, -1));
    const boolean = this.read(BOOLEAN);
    if (boolean !== undefined) return boolean === "?1";
    const integer = this.read(INTEGER);
    return integer === undefined ? { text: this.need(OTHER) } : Number(integer);
  }

  #decode(base64: string): Buffer {
    const bytes = decodeStrictly(base64, "base64");
    if (bytes === undefined) throw this.#malformed();
    return bytes;
  }

  #malformed(): Error {
    return rejected("malformed", `${this.#what} must be a dictionary of structured fields (RFC 9651)`);
  }
}

/** Serializes a list with its parameters in the canonical form that signatures cover. */
export function serializeList(items: readonly Item[], parameters: Parameters): string {
  return `(${items.map(serializeItem).join(" ")})${serializeParameters(parameters)}`;
}

export function serializeItem({ value, parameters }: Item): string {
  return serializeBareItem(value) + serializeParameters(parameters);
}

function serializeParameters(parameters: Parameters): string {
  const pairs = [...parameters].map(([key, value]) =>
    value === true ? `;${key}` : `;${key}=${serializeBareItem(value)}`,
  );
  return pairs.join("");
}

export function serializeBareItem(value: BareItem): string {
  if (typeof value === "string") return `"${value.replace(/["\\]/g, "\\$&")}"`;
  if (typeof value === "boolean") return value ? "?1" : "?0";
  if (Buffer.isBuffer(value)) return `:${value.toString("base64")}:`;
  return typeof value === "number" ? String(value) : value.text;
}
