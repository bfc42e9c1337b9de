import type { z } from "zod";
import type { httpSignature } from "../../shared/webhook-auth/http-signature/settings.ts";
import { HTTP_ALGORITHMS } from "../../shared/webhook-auth/keys/algorithms.ts";
import type { Answer, Handshake } from "../../shared/webhook-auth/sender-description.ts";
import type { Scheme, Timestamp } from "../../shared/webhook-auth/signature-scheme.ts";
import {
  ALGORITHM_WORDS,
  ENCODING_WORDS,
  PLACEHOLDER_WORDS,
  SECRET_WORDS,
  TWILIO_WORDS,
  UNIT_WORDS,
} from "./sender-words.ts";

/** Meaning of each key of a table, and its default. The compiler knows which keys are required. */
type KeyWords<Table> = {
  readonly [Key in keyof Table]-?: readonly [
    without: object extends Pick<Table, Key> ? string : "required",
    words: string,
  ];
};

const ONE_OF_THREE = "one of three";

/** Every algorithm, with a description if the name is not clear. */
const ALGORITHM_LIST = Object.entries(ALGORITHM_WORDS)
  .map(([name, words]) =>
    /\(|secret/.test(words) ? `\`${name}\` (${words.replace(/.*\((.*)\)/, "$1")})` : `\`${name}\``,
  )
  .join(", ");

const SIGNATURE_KEYS: KeyWords<Scheme> = {
  header: [ONE_OF_THREE, "header of the signature; of a list, the first that the request has"],
  query: [ONE_OF_THREE, "query parameter of the signature"],
  field: [ONE_OF_THREE, "JSON Pointer of the signature in the body"],
  any_header: ["`false`", "`true`: any of the headers may have the valid signature"],
  prefix: ["none", "exact text before the signature"],
  prefix_optional: ["`false`", "`true`: the prefix may be missing"],
  list: [
    "the value is the signature",
    '`{ separator = ",", assign = "=", key = "v1" }`: the value is a list, in which one valid item with this key is enough. Without `key`, it may be any item in the form of a signature, as in `v0=<other>,<signature>`. `first` names a first item without a key, so that `timestamp` can read it. `separator` is required; the default of `assign` is `"="`',
  ],
  encoding: ["`hex`", "encoding of the signature: see below"],
  algorithm: ["required", ALGORITHM_LIST],
  secret_format: ["`text`", "form of `secret`: see below"],
  signed: ["`{body}`", "the signed text, with placeholders"],
  twilio: ["`false`", `\`true\`, only with \`signed = "{url}{form}"\`: as Twilio signs. ${TWILIO_WORDS}`],
  timestamp: ["no time is checked", "time of signing. The signature must cover it"],
  require: ["none", "headers that must have exactly these values"],
};

const TIMESTAMP_KEYS: KeyWords<Timestamp> = {
  header: [ONE_OF_THREE, "header of the time"],
  pair: [ONE_OF_THREE, "item of the signature's list with the time"],
  field: [ONE_OF_THREE, "JSON Pointer of the time in the body"],
  unit: ["required", "form of the time: see below"],
  past_secs: ["never too old", "longest age, in seconds"],
  future_secs: ["never too early", "how far the time may be ahead of the gateway's clock, in seconds"],
};

const HTTP_SIGNATURE_KEYS: KeyWords<z.input<typeof httpSignature>> = {
  algorithm: [
    "required",
    `${Object.keys(HTTP_ALGORITHMS)
      .map((name) => `\`"${name}"\``)
      .join(", ")}: the only one that is accepted`,
  ],
  components: [
    '`["@method", "@target-uri", "content-digest"]`. Instead of `@target-uri`, a signature may cover `@authority`, `@path` and, if there is a query, `@query`',
    "components that a signature must cover, with `content-digest`. It may cover more",
  ],
  tag: ["all signatures count", "tag of the signatures that count. Others are ignored"],
  directory: [
    "`secret` has the keys",
    "URL of the sender's key directory, a JWK Set: https, or http on this machine. `keyid` is the `kid` of a key, or its JWK thumbprint (RFC 7638)",
  ],
  past_secs: ["300", "longest age of a signature, in seconds since its `created`"],
  future_secs: ["60", "how far `created` may be ahead of the gateway's clock, in seconds"],
};

const ANSWER_KEYS: KeyWords<Answer> = {
  status: ["202", "200, 201, 202 or 204"],
  content_type: ["application/json with Postern's JSON, none with `body`", "the Content-Type of the answer"],
  body: ["Postern's JSON", "the body of the answer; may be empty"],
  limited: ["429", "429 or 503: status above a rate limit. Use the one after which this sender retries"],
  refusals_limited: [
    "429",
    "429 or 401: status after too many wrong credentials of one address. Use 401 if the sender tests the endpoint with wrong ones",
  ],
};

const HANDSHAKE_KEYS: KeyWords<Handshake> = {
  method: ['`"POST"`', '`"GET"`, `"HEAD"`, `"OPTIONS"` or `"POST"`'],
  when: [
    "every request with this method",
    'placeholders and their values; a `*` at the end of a value matches any text. Fields of the body are allowed only with `proof = "credential"`',
  ],
  form: [
    "the body is not checked",
    'fields of the whole body, a form of at most 1 KiB. A field with the value `*` is optional. Allowed only with `proof = "none"`',
  ],
  proof: [
    "required",
    '`"none"`: a request with the method of a delivery must have no credential. `"credential"`: the request must have a valid one. `{ verify_token = "name" }`: the query parameter that must be `verify_token`. `{ secret_header = "X-Name" }`: the header of the secret, which is accepted while `postern endpoints open` runs',
  ],
  status: ["200", "200 or 204"],
  content_type: ["text/plain with `body`, application/json with `json`", "the Content-Type of the answer"],
  body: [
    "empty, or `json`",
    "answer, with placeholders. An echoed value is at most 1024 characters of visible ASCII",
  ],
  json: ["empty, or `body`", "members of a JSON object; the value `{mac}` is the MAC"],
  headers: ["none", "headers of the answer, with placeholders"],
  mac: [
    "none",
    '`{ of, encoding = "hex" or "base64", prefix }`: MAC of a text with the first secret. `of` and `encoding` are required',
  ],
};

/** Meaning of each key of these tables, for the schemas of editors. */
export const KEYS_OF = {
  signature: SIGNATURE_KEYS,
  timestamp: TIMESTAMP_KEYS,
  http_signature: HTTP_SIGNATURE_KEYS,
  answer: ANSWER_KEYS,
  handshakes: HANDSHAKE_KEYS,
} as const;

const code = (text: string) => `\`${text}\``;

/** The tables of keys at the end of docs/senders.md. */
export function keyTables(): string[] {
  return [
    `## The keys of a description

The keys of an endpoint itself are in \`config/example/webhooks.toml\`.`,
    keyTable("signature", SIGNATURE_KEYS),
    "Set both `past_secs` and `future_secs`, or neither. Without them, only the form of the time is checked.",
    keyTable("timestamp", TIMESTAMP_KEYS),
    keyTable("http_signature", HTTP_SIGNATURE_KEYS),
    keyTable("handshakes", HANDSHAKE_KEYS),
    keyTable("answer", ANSWER_KEYS),
    "`delivery_id`, `event_type` and handshakes accept only header, query, field and CloudEvent attribute:",
    wordTable("Placeholder", Object.fromEntries(Object.values(PLACEHOLDER_WORDS))),
    wordTable("`encoding`", ENCODING_WORDS),
    wordTable("`secret_format`", SECRET_WORDS),
    wordTable("`unit`", UNIT_WORDS),
  ];
}

function keyTable(
  name: string,
  keys: Readonly<Record<string, readonly [without: string, words: string]>>,
): string {
  const rows = Object.entries(keys);
  const lines = rows.map(([key, [without, words]]) => `| ${code(key)} | ${without} | ${words} |`);
  return [`| Key of ${code(name)} | Without it | |`, "|---|---|---|", ...lines].join("\n");
}

function wordTable(title: string, rows: Readonly<Record<string, string>>): string {
  const lines = Object.entries(rows).map(([name, words]) =>
    `| ${code(name)} | ${words} |`.replace(/(?<=X-Id)\|/, "\\|"),
  );
  return [`| ${title} | |`, "|---|---|", ...lines].join("\n");
}
