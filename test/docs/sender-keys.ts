import type { Answer, Handshake, Scheme, Timestamp } from "../../shared/senders/description.ts";
import {
  ALGORITHM_WORDS,
  ENCODING_WORDS,
  PLACEHOLDER_WORDS,
  SECRET_WORDS,
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
  header: [
    ONE_OF_THREE,
    "the header of the signature. Of a list of names, the first that the request has counts",
  ],
  query: [ONE_OF_THREE, "the parameter of the query that holds the signature"],
  field: [ONE_OF_THREE, "the field of the JSON body that holds the signature, as a JSON Pointer"],
  any_header: ["`false`", "`true`: any of the headers may hold the good signature"],
  prefix: ["none", "text before the signature, exactly"],
  prefix_optional: ["`false`", "`true`: the prefix may be missing"],
  list: [
    "the value is the signature",
    '`{ separator = ",", assign = "=", key = "v1" }`: the value is a list, and any item with this key may be the good signature. Without `key`, any item may be it that is written as a signature, as in `v0=<other>,<signature>`. Other items are ignored. `assign` is `"="` if left out; `separator` is required',
  ],
  encoding: ["`hex`", "how the signature is written: see below"],
  algorithm: ["required", "how the signature is made: see below"],
  secret_format: ["`text`", "how `secret` becomes the key: see below"],
  signed: ["`{body}`", "what is signed, with placeholders"],
  body_sha256_query: [
    "none",
    "a parameter of the query that is the hex SHA-256 of the body. If the request has it, `{form}` is empty",
  ],
  form_begins_with: [
    "the query must be that of `public_url`",
    "the first field of the sorted form, which must follow `{url}` in `signed`. The query may then continue that of `public_url` after `&`, but must not hold this name",
  ],
  url_port_optional: ["`false`", "`true`: the URL may have been signed with its port or without"],
  timestamp: ["no time is checked", "when the sender signed. The signature must cover it"],
  require: ["none", "headers that must have exactly these values"],
};

const TIMESTAMP_KEYS: KeyWords<Timestamp> = {
  header: [ONE_OF_THREE, "the header of the time"],
  pair: [ONE_OF_THREE, "the item of the signature's list that holds the time"],
  field: [ONE_OF_THREE, "the field of the JSON body that holds the time, as a JSON Pointer"],
  unit: ["required", "the form of the time: see below"],
  past_secs: ["never too old", "how many seconds old it may be"],
  future_secs: ["never too early", "how many seconds ahead of the gateway's clock it may be"],
};

const ANSWER_KEYS: KeyWords<Answer> = {
  status: ["202", "200, 201, 202 or 204"],
  content_type: ["application/json with Postern's JSON, none with `body`", "the Content-Type of the answer"],
  body: ["Postern's JSON", "the body of the answer; may be empty"],
  limited: ["429", "429 or 503: the status over a rate limit which makes this sender come again"],
  refusals_limited: [
    "429",
    "429 or 401: the status after too many refused credentials of one address. 401 is for senders that try an endpoint with bad ones",
  ],
};

const HANDSHAKE_KEYS: KeyWords<Handshake> = {
  method: ['`"POST"`', '`"GET"`, `"HEAD"`, `"OPTIONS"` or `"POST"`'],
  when: [
    "every request with this method",
    'what the request must have: placeholders and their values, of which a `*` at the end is any text. Fields of the body only with `proof = "credential"`',
  ],
  form: [
    "the body is not looked at",
    'the fields of which the whole body consists, a form of at most 1 KiB. One with the value `*` may be missing. Only with `proof = "none"`',
  ],
  proof: [
    "required",
    '`"none"`, where a request with the method of a delivery must have no credential; `"credential"`; `{ verify_token = "name" }`, the parameter of the query that must be `verify_token`; `{ secret_header = "X-Name" }`, the header of a secret that is taken while `postern endpoint open` runs',
  ],
  status: ["200", "200 or 204"],
  content_type: ["text/plain with `body`, application/json with `json`", "the Content-Type of the answer"],
  body: [
    "empty, or `json`",
    "the answer, with placeholders. What is echoed is at most 1024 characters of visible ASCII",
  ],
  json: ["empty, or `body`", "the members of a JSON object; the value `{mac}` is the MAC"],
  headers: ["none", "headers of the answer, with placeholders"],
  mac: [
    "none",
    '`{ of, encoding = "hex" or "base64", prefix }`: the MAC of a text under the first secret. `of` and `encoding` are required',
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

A key without which the configuration is refused is marked as required. The keys of an endpoint itself are in
\`config/example/webhooks.toml\`.`,
    keyTable("signature", SIGNATURE_KEYS),
    "Give `past_secs` and `future_secs` both or neither. Without them only the form of the time is checked: a delivery is never too old.",
    keyTable("timestamp", TIMESTAMP_KEYS),
    keyTable("handshakes", HANDSHAKE_KEYS),
    keyTable("answer", ANSWER_KEYS),
    "Placeholders. `delivery_id`, `event_type` and handshakes take only those of header, query and field:",
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
