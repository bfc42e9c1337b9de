import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import type {
  Algorithm,
  Encoding,
  Scheme,
  SecretFormat,
  Timestamp,
  TimeUnit,
} from "../../shared/webhook-auth/signature-scheme.ts";
import type { Part } from "../../shared/webhook-auth/template.ts";

/* The words of docs/senders.md for what a description says. The compiler asks for those of whatever is added. */

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
  "ed25519-hex": "the sender's public key, 64 hex digits: it is not secret, but this key has it",
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
  query: ["{query:id}", "a parameter of the query, decoded"],
  timestamp: ["{timestamp}", "the time as it was sent"],
  pair: ["{pair:t}", "another item of the signature's list"],
  "named-headers": [
    "{named-headers:h}",
    "the headers that an item of the list names: their values, joined with dots",
  ],
  method: ["{method}", "the request's method"],
  url: ["{url}", "`public_url`: the URL exactly as you wrote it at the sender"],
  form: ["{form}", "the fields of a form: sorted, each name followed by its value"],
  secret: ["{secret}", "the secret, for `sha256` and `keccak-256`, which have no key"],
};

const code = (text: string) => `\`${text}\``;

/** How and over what a request is signed. */
export function signatureWords(scheme: Scheme): string {
  const { algorithm, secret_format = "text", signed = "{body}" } = scheme;
  if (algorithm === "equal") return `${placeOf(scheme, "<secret>")} is the secret itself.`;
  const whatSigns = `${ALGORITHM_WORDS[algorithm]} of ${code(signed)}`;
  return [
    `${placeOf(scheme, ENCODING_FORMS[scheme.encoding ?? "hex"])}: ${whatSigns}.`,
    ...extrasOf(scheme),
    `${code("secret")} is ${SECRET_WORDS[secret_format]}.`,
  ].join(" ");
}

function placeOf({ header, query, field, any_header, prefix = "", list }: Scheme, form: string): string {
  const key = list?.key === undefined ? "" : `${list.key}${list.assign ?? "="}`;
  const value = `${prefix}${key}${form}`;
  if (query !== undefined) return `${code(`?${query}=${value}`)} in the query`;
  if (field !== undefined) return `The field ${code(field)} of the body, ${code(value)}`;
  const names = [header ?? []].flat();
  if (names.length === 1) return code(`${names[0]}: ${value}`);
  const which = any_header === true ? "Any of" : "The first present of";
  return `${which} ${headerList(names)}: ${code(value)}`;
}

/** Numbered headers are many. */
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
  if (list !== undefined) {
    const which = list.key === undefined ? "item" : code(list.key);
    texts.push(
      `The header is a list, separated by ${list.separator === " " ? "spaces" : code(list.separator)}; one valid ${which} is enough, and other items are ignored.`,
    );
  }
  for (const [name, value] of Object.entries(require ?? {}))
    texts.push(`${code(name)} must be ${code(value)}.`);
  if (twilio === true) texts.push(TWILIO_WORDS);
  return texts;
}

/** When a request was signed, and how old it may be. */
export function timeWords({ header, pair, field, unit, past_secs, future_secs }: Timestamp): string {
  const where =
    pair === undefined ? code(header ?? `{body:${field}}`) : `item ${code(pair)} of the signature's list`;
  const window =
    past_secs === undefined
      ? "Only its form is checked: a delivery is never too old."
      : `At most ${past_secs} s old, and ${future_secs ?? "any number of"} s ahead.`;
  return `${where}: ${UNIT_WORDS[unit]}. ${window}`;
}

type HandshakeToml = EndpointToml["handshakes"][number];

/** A handshake, what proves it, and its answer. */
export function handshakeWords(handshake: HandshakeToml): string {
  const { method, when, form } = handshake;
  const conditions = Object.entries(when).map(([template, wanted]) => {
    if (wanted === "*") return `with ${code(template)}`;
    return wanted === "" ? `with an empty ${code(template)}` : `with ${code(template)} = ${code(wanted)}`;
  });
  if (form !== undefined) conditions.push(`as a form of ${formWords(form)}`);
  return `${[method, conditions.join(" and ")].join(" ").trim()}, ${proofWords(handshake)}: ${replyWords(handshake)}.`;
}

/** The fields of which a form consists. */
function formWords(form: Readonly<Record<string, string>>): string {
  const fields = Object.entries(form).map(([name, value]) =>
    value === "*" ? `optionally ${code(name)}` : code(`${name}=${value}`),
  );
  return `${fields.join(" and ")}, at most 1 KiB`;
}

function proofWords({ proof, method }: HandshakeToml): string {
  if (proof === "none") return method === "POST" ? "without any credential" : "without any proof";
  if (proof === "credential") return "with a valid signature";
  if ("verify_token" in proof)
    return `if ${code(`{query:${proof.verify_token}}`)} is the endpoint's ${code("verify_token")}, else 403`;
  return `while ${code("postern endpoints open")} has the endpoint open, else 403`;
}

function replyWords({ status, body, json, headers, mac }: HandshakeToml): string {
  const parts = Object.entries(headers).map(([name, text]) => `the header ${code(`${name}: ${text}`)}`);
  if (json !== undefined) parts.push(code(JSON.stringify(json)));
  else if (body !== undefined) parts.push(`the text ${code(body)}`);
  const answer = parts.length === 0 ? `${status}, empty` : `${status} with ${parts.join(" and ")}`;
  if (mac === undefined) return answer;
  const form = `${mac.prefix ?? ""}<${mac.encoding}>`;
  return `${answer}, where ${code("{mac}")} is ${code(form)}, the HMAC of ${code(mac.of)} under the first secret`;
}

/** What an accepted delivery is answered. */
export function answerWords({ status, content_type, body, limited }: EndpointToml["answer"]): string {
  const text =
    body === undefined ? "with Postern's JSON" : body === "" ? "with an empty body" : `with ${code(body)}`;
  const content = status === 204 ? "" : ` ${text}`;
  const type = content_type === undefined ? "" : ` (${code(content_type)})`;
  return `${status}${content}${type}; ${limited} above a rate limit.`;
}
