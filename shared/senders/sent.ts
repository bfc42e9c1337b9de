import { headerBytes } from "../http/headers.ts";
import type { Encoding, Scheme } from "./description.ts";
import { SIGNATURE_BYTES } from "./verifier.ts";

/** What a request sends as its signature. */
export type Sent = {
  /** Any of them may be the good one. Never empty. */
  readonly candidates: readonly Buffer[];
  /** The value of another item of the list; undefined unless it is there exactly once. */
  pair(key: string): string | undefined;
};

/** Senders put two or three items into a list. */
const ITEMS_MAX = 64;
/** Senders that change their key sign with the old one and the new one. */
const CANDIDATES_MAX = 8;

/** Parses the text of the signature, of all headers that count. Undefined if it has not exactly the described form. */
export function parseSent(texts: readonly string[], scheme: Scheme): Sent | undefined {
  const items = scheme.list === undefined ? undefined : itemsOf(texts, scheme.list);
  const candidates: Buffer[] = [];
  for (const text of items === undefined ? texts : valuesOf(items, scheme.list?.key)) {
    const value = items === undefined ? withoutPrefix(text, scheme) : text;
    const bytes = value === undefined ? undefined : decode(value, scheme);
    if (bytes !== undefined) candidates.push(bytes);
  }
  if (candidates.length === 0 || candidates.length > CANDIDATES_MAX) return undefined;
  return {
    candidates,
    pair(key) {
      const [value, ...more] = valuesOf(items ?? [], key);
      return more.length > 0 ? undefined : value;
    },
  };
}

type Item = [key: string, value: string];

function valuesOf(items: readonly Item[], key: string | undefined): string[] {
  return items.filter(([each]) => each === key).map(([, value]) => value);
}

/** The form that `parseSent` wants, for operators. */
export function formWanted({
  algorithm,
  encoding = "hex",
  prefix = "",
  prefix_optional,
  list,
}: Scheme): string {
  const bytes = SIGNATURE_BYTES[algorithm];
  const size = bytes === undefined ? "" : ` of ${bytes} bytes`;
  const value = `${encoding}${size}`;
  if (list !== undefined) return `an item ${list.key}${list.assign ?? "="}… is to be ${value}`;
  if (prefix === "") return `the signature is to be ${value}`;
  const article = prefix_optional === true ? "perhaps " : "";
  return `the signature is to be ${article}${prefix} and ${value}`;
}

/** What `pair` wants, for operators. */
export function oneItem(key: string): string {
  return `the signature is to have one item ${key}`;
}

/** Whether a list has an item with the key of its signatures. */
export function hasCandidate(texts: readonly string[], { list }: Scheme): boolean {
  return list === undefined || itemsOf(texts, list).some(([key]) => key === list.key);
}

function itemsOf(texts: readonly string[], { separator, assign = "=" }: NonNullable<Scheme["list"]>): Item[] {
  return texts.flatMap((text) =>
    text.split(separator, ITEMS_MAX).map((item): Item => {
      const at = item.indexOf(assign);
      return at === -1 ? [item, ""] : [item.slice(0, at), item.slice(at + assign.length)];
    }),
  );
}

function withoutPrefix(text: string, { prefix = "", prefix_optional }: Scheme): string | undefined {
  if (text.startsWith(prefix)) return text.slice(prefix.length);
  return prefix_optional === true ? text : undefined;
}

/** The bytes of a signature. The form is checked first: Node's decoders ignore what they cannot read. */
function decode(text: string, { algorithm, header, encoding = "hex" }: Scheme): Buffer | undefined {
  if (algorithm === "equal") return header === undefined ? Buffer.from(text, "utf8") : headerBytes(text);
  const bytes = decodeAs(text, encoding);
  const wanted = SIGNATURE_BYTES[algorithm];
  return wanted === undefined || bytes?.length === wanted ? bytes : undefined;
}

const HEX: Partial<Record<Encoding, RegExp>> = {
  hex: /^(?:[0-9a-f]{2})+$/,
  "hex-upper": /^(?:[0-9A-F]{2})+$/,
  "hex-any-case": /^(?:[0-9a-fA-F]{2})+$/,
  "0x-hex": /^0x(?:[0-9a-f]{2})+$/,
};

function decodeAs(text: string, encoding: Encoding): Buffer | undefined {
  if (encoding === "base64") {
    const bytes = Buffer.from(text, "base64");
    return bytes.toString("base64") === text ? bytes : undefined;
  }
  if (HEX[encoding]?.test(text) !== true) return undefined;
  return Buffer.from(encoding === "0x-hex" ? text.slice(2) : text, "hex");
}
