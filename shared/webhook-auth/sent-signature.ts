import { headerBytes } from "../http/headers.ts";
import { decodeStrictly } from "../platform/text/strict-base64.ts";
import type { Encoding, Scheme } from "./signature-scheme.ts";
import { isDigest, SIGNATURE_BYTES } from "./verifier.ts";

/** Signature of a request, as sent. */
export type Sent = {
  /**
   * Values in the request that have the form of the signature, at least one. The request is accepted if one of them is
   * valid.
   */
  readonly candidates: readonly Buffer[];
  /**
   * Returns the value of the item with this key in a list such as `t=1,v1=ab`. Undefined unless the key occurs exactly
   * once.
   */
  pair(key: string): string | undefined;
};

/** Limit on the items of a list. Senders use two or three. */
const ITEMS_MAX = 64;
/** Limit on candidates. There are two while a sender changes its key and signs with both the old and the new one. */
const CANDIDATES_MAX = 8;

/**
 * Returns the limit on signatures to try. A digest under a shared secret is computed once and compared with all of
 * them, so each of the scheme's headers may hold one. With a public key, each signature must be verified separately.
 */
function candidatesMax({ header, algorithm }: Scheme): number {
  const headers = Array.isArray(header) ? header.length : 1;
  return isDigest(algorithm) ? Math.max(CANDIDATES_MAX, headers) : CANDIDATES_MAX;
}

/**
 * Parses the signatures in these header or field texts. Undefined if none has the form that the scheme describes, or if
 * too many have it.
 */
export function parseSent(texts: readonly string[], scheme: Scheme): Sent | undefined {
  const items = scheme.list === undefined ? undefined : itemsOf(texts, scheme.list);
  const candidates: Buffer[] = [];
  for (const text of items === undefined ? texts : signaturesOf(items, scheme.list?.key)) {
    const value = items === undefined ? withoutPrefix(text, scheme) : text;
    const bytes = value === undefined ? undefined : decode(value, scheme);
    if (bytes !== undefined) candidates.push(bytes);
  }
  if (candidates.length === 0 || candidates.length > candidatesMax(scheme)) return undefined;
  return {
    candidates,
    pair(key) {
      const [value, ...more] = signaturesOf(items ?? [], key);
      return more.length > 0 ? undefined : value;
    },
  };
}

type Item = { whole: string; key: string; value: string };

/**
 * Returns the values of the items with this key. Without a key, returns all items as sent. The caller then tries to
 * decode each item as a signature, which fails for items such as `t=1`.
 */
function signaturesOf(items: readonly Item[], key: string | undefined): string[] {
  if (key === undefined) return items.map(({ whole }) => whole);
  return items.filter((item) => item.key === key).map(({ value }) => value);
}

/** Describes the form that `parseSent` expects, for operators. */
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
  if (list?.key !== undefined) return `an item ${list.key}${list.assign ?? "="}… must be ${value}`;
  if (list !== undefined) return `an item of the list must be ${value}`;
  if (prefix === "") return `the signature must be ${value}`;
  const article = prefix_optional === true ? "an optional " : "";
  return `the signature must be ${article}${prefix} and ${value}`;
}

/** Describes the item that `pair` expects, for operators. */
export function oneItem(key: string): string {
  return `the signature must have one item ${key}`;
}

function itemsOf(
  texts: readonly string[],
  { separator, assign = "=", first }: NonNullable<Scheme["list"]>,
): Item[] {
  return texts.flatMap((text) =>
    text.split(separator, ITEMS_MAX).map((whole, index): Item => {
      if (index === 0 && first !== undefined) return { whole, key: first, value: whole };
      const at = whole.indexOf(assign);
      if (at === -1) return { whole, key: whole, value: "" };
      return { whole, key: whole.slice(0, at), value: whole.slice(at + assign.length) };
    }),
  );
}

function withoutPrefix(text: string, { prefix = "", prefix_optional }: Scheme): string | undefined {
  if (text.startsWith(prefix)) return text.slice(prefix.length);
  return prefix_optional === true ? text : undefined;
}

/** Decodes a signature. The form is checked first, because Node's decoders ignore invalid characters. */
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
  if (encoding === "base64") return decodeStrictly(text, encoding);
  if (HEX[encoding]?.test(text) !== true) return undefined;
  return Buffer.from(encoding === "0x-hex" ? text.slice(2) : text, "hex");
}

const ENCODERS: Readonly<Record<Encoding, (bytes: Buffer) => string>> = {
  hex: (bytes) => bytes.toString("hex"),
  "hex-upper": (bytes) => bytes.toString("hex").toUpperCase(),
  "hex-any-case": (bytes) => bytes.toString("hex"),
  "0x-hex": (bytes) => `0x${bytes.toString("hex")}`,
  base64: (bytes) => bytes.toString("base64"),
};

/** Encodes a signature as its sender does. */
export function encodeAs(bytes: Buffer, encoding: Encoding = "hex"): string {
  return ENCODERS[encoding](bytes);
}
