import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import type {
  Algorithm,
  Encoding,
  Scheme,
  SecretFormat,
  Timestamp,
  TimeUnit,
} from "../../shared/webhook-auth/signature-scheme.ts";
import { isExtendable } from "../../shared/webhook-auth/signed-message.ts";
import type { Part } from "../../shared/webhook-auth/template.ts";

/*
 * The descriptions in docs/senders.md for the values of a sender's description. The compiler requires a text for each new value.
 */

export const ALGORITHM_WORDS: Readonly<Record<Algorithm, string>> = {
  "hmac-sha1": "HMAC-SHA-1",
  "hmac-sha256": "HMAC-SHA-256",
  "hmac-sha512": "HMAC-SHA-512",
  sha256: "SHA-256",
  "keccak-256": "Keccak-256",
  ed25519: "Ed25519",
  "ecdsa-p256": "ECDSA (P-256, SHA-256, DER)",
  equal: "the secret itself",
};

export const ENCODING_FORMS: Readonly<Record<Encoding, string>> = {
  hex: "<hex>",
  "hex-upper": "<HEX>",
  "hex-any-case": "<hex of any case>",
  "0x-hex": "0x<hex>",
  base64: "<base64>",
};

export const ENCODING_WORDS: Readonly<Record<Encoding, string>> = {
  hex: "lower-case hex (the default)",
  "hex-upper": "upper-case hex",
  "hex-any-case": "hex of any case",
  "0x-hex": "lower-case hex behind `0x`",
  base64: "base64 with padding (RFC 4648, section 4)",
};

export const SECRET_WORDS: Readonly<Record<SecretFormat, string>> = {
  text: "text, used as it stands",
  hex: "hex, which is decoded",
  base64: "base64, which is decoded",
  whsec: "`whsec_` or `v1,whsec_` and base64, which is decoded",
  "base64-or-whsec": "base64, which is decoded, with or without `whsec_` or `v1,whsec_` before it",
  "text-or-whsec": "text; or `whsec_` or `v1,whsec_` and base64, which is decoded",
  "ed25519-hex": "the sender's public key, 64 hex digits",
  "ed25519-whpk": "the sender's public key, `whpk_` or `v1a,whpk_` and base64",
  spki: "the sender's public key (SubjectPublicKeyInfo), as base64 or PEM",
};

export const UNIT_WORDS: Readonly<Record<TimeUnit, string>> = {
  s: "Unix seconds, 10 digits",
  ms: "Unix milliseconds, 13 digits",
  rfc3339: "a date of RFC 3339",
  go: "a date as the Go language prints it",
};

export const PLACEHOLDER_WORDS: Readonly<
  Record<Exclude<Part["kind"], "literal">, readonly [string, string]>
> = {
  body: ["{body}", "the body, byte for byte"],
  field: [
    "{body:/data/id}",
    "a field of the JSON body, by JSON Pointer (RFC 6901); `*` means every element of a list",
  ],
  header: ["{header:X-Id}", "a header; of `{header:X-Id|X-Other-Id}`, the first that the request has"],
  cloudevent: [
    "{cloudevent:id}",
    "an attribute of a CloudEvent: a header `ce-…` in the binary mode, else a field of the JSON body (of a batch, of all its events)",
  ],
  query: ["{query:id}", "a parameter of the query, decoded"],
  timestamp: ["{timestamp}", "the time as it was sent"],
  pair: ["{pair:t}", "another item of the signature's list"],
  "named-headers": [
    "{named-headers:h}",
    "the headers that an item of the list names: their values, joined with dots",
  ],
  method: ["{method}", "the request's method"],
  url: ["{url}", "`public_url`"],
  form: ["{form}", "the fields of a form: sorted, each name followed by its value"],
  secret: [
    "{secret}",
    "the secret, for `sha256` and `keccak-256`, which have no key. If it comes before the body, `sha256` refuses a body that is not UTF-8: otherwise, an attacker could append bytes to a recorded delivery",
  ],
};

const code = (text: string) => `\`${text}\``;

/** Describes how a request is signed, and over which bytes. */
export function signatureWords(scheme: Scheme): string {
  const { algorithm, secret_format = "text", signed = "{body}" } = scheme;
  if (algorithm === "equal") return `${placeOf(scheme, "<secret>")}.`;
  const whatSigns = `${ALGORITHM_WORDS[algorithm]}${signed === "{body}" ? "" : ` of ${code(signed)}`}`;
  return [
    `${placeOf(scheme, ENCODING_FORMS[scheme.encoding ?? "hex"])}: ${whatSigns}.`,
    ...extrasOf(scheme),
    ...(secret_format === "text" ? [] : [`Secret: ${SECRET_WORDS[secret_format]}.`]),
  ].join(" ");
}

function placeOf({ header, query, field, any_header, prefix = "", list }: Scheme, form: string): string {
  const key = list?.key === undefined ? "" : `${list.key}${list.assign ?? "="}`;
  const separator = list?.separator ?? "";
  const around = list === undefined ? ["", ""] : [`…${separator}`, `${separator}…`];
  const value = `${prefix}${around.join(`${key}${form}`)}`;
  if (query !== undefined) return `${code(`?${query}=${value}`)} in the query`;
  if (field !== undefined) return `Field ${code(field)} of the body, ${code(value)}`;
  const names = [header ?? []].flat();
  if (names.length === 1) return code(`${names[0]}: ${value}`);
  const which = any_header === true ? "Any of" : "The first present of";
  return `${which} ${headerList(names)}: ${code(value)}`;
}

/** Lists headers. Numbered headers count as many. */
function headerList(names: readonly string[]): string {
  const [first = "", last = ""] = [names[0], names.at(-1)];
  return names.length > 4 ? `${code(first)} to ${code(last)}` : names.map(code).join(", ");
}

/** The rules of the key `twilio`. */
export const TWILIO_WORDS =
  "`{url}` may have its port or not. If the query has `bodySHA256`, that must be the SHA-256 of the body, and `{form}` is empty. Without `bodySHA256`, the sorted form must begin with `AccountSid`. The query must not have `AccountSid`. It may continue the query of `public_url` after `&`.";

function extrasOf(scheme: Scheme): string[] {
  const { list, require, twilio } = scheme;
  const texts: string[] = [];
  if (list?.first !== undefined)
    texts.push(`The first item of the list has no key, and is called ${code(list.first)} here.`);
  for (const [name, value] of Object.entries(require ?? {}))
    texts.push(`${code(name)} must be ${code(value)}.`);
  if (twilio === true) texts.push(`More rules: key ${code("twilio")} [below](#the-keys-of-a-description).`);
  if (isExtendable(scheme)) texts.push("The body must be UTF-8.");
  return texts;
}

/** Describes the place and form of the signing time, and its limits unless they are 300 s in both directions. */
export function timeWords({ header, pair, field, unit, past_secs, future_secs }: Timestamp): string {
  const where = pair === undefined ? code(header ?? `{body:${field}}`) : `item ${code(pair)} of the list`;
  return `${where}, ${UNIT_WORDS[unit].split(",", 1)[0]}${limitWords(past_secs, future_secs)}.`;
}

function limitWords(past?: number, future?: number): string {
  if (past === undefined) return ". Only its form is checked: a delivery is never too old";
  if (past !== future) return `; at most ${past} s old, and ${future ?? "any number of"} s ahead`;
  return past === 300 ? "" : `; at most ${past} s old or ahead`;
}

type HandshakeToml = EndpointToml["handshakes"][number];

/** The request of a handshake, and its proof. */
export function handshakeWords(handshake: HandshakeToml): string {
  const { method, when, form } = handshake;
  const conditions = Object.entries(when).map(([template, wanted]) => {
    if (wanted === "*") return code(template);
    return wanted === "" ? `an empty ${code(template)}` : `${code(template)} = ${code(wanted)}`;
  });
  if (form !== undefined) conditions.push(`a form of ${formWords(form)}`);
  const request = conditions.length === 0 ? method : `${method} with ${conditions.join(" and ")}`;
  return `${request}, ${proofWords(handshake)}.`;
}

/** Describes the fields of a form. */
function formWords(form: Readonly<Record<string, string>>): string {
  const fields = Object.entries(form).map(([name, value]) =>
    value === "*" ? `optionally ${code(name)}` : code(`${name}=${value}`),
  );
  return `${fields.join(" and ")}, at most 1 KiB`;
}

function proofWords({ proof }: HandshakeToml): string {
  if (proof === "none") return "without proof";
  if (proof === "credential") return "with a valid credential";
  if ("verify_token" in proof)
    return `if ${code(`{query:${proof.verify_token}}`)} is the endpoint's ${code("verify_token")}, else 403`;
  return `while ${code("postern endpoints open")} has the endpoint open, else 403`;
}

/** Describes the answer to an accepted delivery, and the status above a rate limit. Undefined if both are the usual ones. */
export function answerWords({
  status,
  content_type,
  body,
  limited,
}: EndpointToml["answer"]): string | undefined {
  const text = body === "" ? "with an empty body" : `with ${code(body ?? "")}`;
  const parts = [
    ...(body === undefined && status !== 204 ? [] : [String(status)]),
    ...(body === undefined ? [] : [text]),
    ...(content_type === undefined ? [] : [`(${code(content_type)})`]),
  ].join(" ");
  const all = [parts, limited === 429 ? "" : `${limited} above a rate limit`].filter((part) => part !== "");
  return all.length === 0 ? undefined : `${all.join("; ")}.`;
}
