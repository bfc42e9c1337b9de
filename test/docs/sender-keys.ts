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

/** What each key of a table means, and what holds without it. The compiler knows which keys are required. */
type KeyWords<Table> = {
  readonly [Key in keyof Table]-?: readonly [
    without: object extends Pick<Table, Key> ? string : "required",
    words: string,
  ];
};

const ONE_OF_THREE = "one of the three is required";

const SIGNATURE_KEYS: KeyWords<Scheme> = {
  header: [ONE_OF_THREE, "header of the signature. A list of names means the first one that the request has"],
  query: [ONE_OF_THREE, "query parameter of the signature"],
  field: [ONE_OF_THREE, "field of the JSON body with the signature, as a JSON Pointer"],
  any_header: ["`false`", "`true`: any of the headers may have the valid signature"],
  prefix: ["none", "exact text before the signature"],
  prefix_optional: ["`false`", "`true`: the prefix may be missing"],
  list: [
    "the value is the signature",
    '`{ separator = ",", assign = "=", key = "v1" }`: the value is a list, in which any item with this key may be the valid signature. Without `key`, it may be any item in the form of a signature, as in `v0=<other>,<signature>`. Other items are ignored. The default of `assign` is `"="`; `separator` is required',
  ],
  encoding: ["`hex`", "encoding of the signature: see below"],
  algorithm: ["required", "algorithm of the signature: see below"],
  secret_format: ["`text`", "form of `secret`: see below"],
  signed: ["`{body}`", "the signed text, with placeholders"],
  twilio: ["`false`", `\`true\`, only with \`signed = "{url}{form}"\`: as Twilio signs. ${TWILIO_WORDS}`],
  timestamp: ["no time is checked", "time of signing. The signature must cover it"],
  require: ["none", "headers that must have exactly these values"],
};

const TIMESTAMP_KEYS: KeyWords<Timestamp> = {
  header: [ONE_OF_THREE, "header of the time"],
  pair: [ONE_OF_THREE, "item of the signature's list with the time"],
  field: [ONE_OF_THREE, "field of the JSON body with the time, as a JSON Pointer"],
  unit: ["required", "form of the time: see below"],
  past_secs: ["never too old", "longest age, in seconds"],
  future_secs: ["never too early", "longest time ahead of the gateway's clock, in seconds"],
};

const ANSWER_KEYS: KeyWords<Answer> = {
  status: ["202", "200, 201, 202 or 204"],
  content_type: ["application/json with Postern's JSON, none with `body`", "the Content-Type of the answer"],
  body: ["Postern's JSON", "the body of the answer; may be empty"],
  limited: ["429", "429 or 503: status above a rate limit. Use the one after which this sender retries"],
  refusals_limited: [
    "429",
    "429 or 401: status after too many wrong credentials of one address. Use 401 for senders that test an endpoint with wrong ones",
  ],
};

const HANDSHAKE_KEYS: KeyWords<Handshake> = {
  method: ['`"POST"`', '`"GET"`, `"HEAD"`, `"OPTIONS"` or `"POST"`'],
  when: [
    "every request with this method",
    'condition on the request: placeholders and their values, in which a `*` at the end matches any text. Fields of the body are allowed only with `proof = "credential"`',
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

/** What each key of these tables means, for the schemas of editors. */
export const KEYS_OF = {
  signature: SIGNATURE_KEYS,
  timestamp: TIMESTAMP_KEYS,
  answer: ANSWER_KEYS,
  handshakes: HANDSHAKE_KEYS,
} as const;

const code = (text: string) => `\`${text}\``;

/** The tables of keys at the end of docs/senders.md. */
export function keyTables(): string[] {
  return [
    `## The keys of a description

The configuration is refused if a key that is marked as required is missing. The keys of an endpoint itself are in
\`config/example/webhooks.toml\`.`,
    keyTable("signature", SIGNATURE_KEYS),
    "Set both `past_secs` and `future_secs`, or neither. Without them, only the form of the time is checked: a delivery is never too old.",
    keyTable("timestamp", TIMESTAMP_KEYS),
    keyTable("handshakes", HANDSHAKE_KEYS),
    keyTable("answer", ANSWER_KEYS),
    "Placeholders. `delivery_id`, `event_type` and handshakes accept only those of header, query and field:",
    wordTable("Placeholder", Object.fromEntries(Object.values(PLACEHOLDER_WORDS))),
    wordTable("`algorithm`", ALGORITHM_WORDS),
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
