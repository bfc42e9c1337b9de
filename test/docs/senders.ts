import { readFileSync } from "node:fs";
import { stringify } from "smol-toml";
import { type EndpointToml, endpoint } from "../../shared/config/endpoint-toml.ts";
import { AUTH_MODES, schemesOf } from "../../shared/webhook-auth/auth-modes.ts";
import { isCovered, isTimed } from "../../shared/webhook-auth/coverage.ts";
import { chains } from "../../shared/webhook-auth/presets/chains.ts";
import { clouds } from "../../shared/webhook-auth/presets/clouds.ts";
import { codeHosts } from "../../shared/webhook-auth/presets/code-hosts.ts";
import { commerce } from "../../shared/webhook-auth/presets/commerce.ts";
import { documents } from "../../shared/webhook-auth/presets/documents.ts";
import { messaging } from "../../shared/webhook-auth/presets/messaging.ts";
import { monitoring } from "../../shared/webhook-auth/presets/monitoring.ts";
import { PRESETS } from "../../shared/webhook-auth/presets/presets.ts";
import { standardWebhooks } from "../../shared/webhook-auth/presets/standard-webhooks.ts";
import type { Preset } from "../../shared/webhook-auth/sender-description.ts";
import type { Coverage } from "../../shared/webhook-auth/signature-scheme.ts";
import { toParts } from "../../shared/webhook-auth/template.ts";
import { sendersWithPreset } from "../fixtures/senders/endpoints.ts";
import { keyTables } from "./sender-keys.ts";
import { VARIANTS } from "./sender-variants.ts";
import { answerWords, handshakeWords, signatureWords, timeWords } from "./sender-words.ts";

/** The sections of docs/senders.md. Each preset is in one. */
export const GROUPS: readonly (readonly [title: string, presets: Readonly<Record<string, Preset>>])[] = [
  ["Code", codeHosts],
  ["Clouds", clouds],
  ["Standard Webhooks", standardWebhooks],
  ["Chains", chains],
  ["Payments and shops", commerce],
  ["Chat, mail, telephone and networks", messaging],
  ["Errors, alerts and signals", monitoring],
  ["Files, forms, customers and calendars", documents],
];

/** Secrets of the kind that each sender hands out, for the variables that the page names. */
export const SENDER_SECRETS: Readonly<Record<string, string>> = Object.fromEntries([
  ["POSTERN_ACME_SECRET", "a text that is long enough"],
  ["POSTERN_ADYEN_PASSWORD", "a text that is long enough"],
  ["POSTERN_META_VERIFY_TOKEN", "another text that is long enough"],
  ...sendersWithPreset
    .filter(({ preset }) => PRESETS[preset]?.endpoint.auth !== "jwt")
    .map(({ preset, key }) => [secretVariable(preset), key("documented").configured]),
]);

function secretVariable(preset: string): string {
  return `POSTERN_${preset.replaceAll("-", "_").toUpperCase()}_SECRET`;
}

/** The endpoint that an operator writes, with the fewest keys that the preset allows. */
function tableOf(name: string, preset: Preset) {
  const described = preset.endpoint;
  const schemes = [described.signature ?? []].flat();
  const proofs = (described.handshakes ?? [])
    .map(({ proof }) => proof)
    .filter((proof) => typeof proof === "object");
  const signsUrl = schemes.some(({ signed = "" }) => signed.includes("{url}"));
  const { secret, example } = AUTH_MODES[described.auth];
  const secretComes = proofs.some((proof) => "secret_header" in proof);
  return {
    path: `/hooks/${name}`,
    job_id: 1,
    preset: name,
    ...example,
    ...(!secretComes && secret !== "none" && { secret: `env:${secretVariable(name)}` }),
    ...(proofs.some((proof) => "verify_token" in proof) && {
      verify_token: `env:${secretVariable(name).replace("_SECRET", "_VERIFY_TOKEN")}`,
    }),
    ...(signsUrl && { public_url: `https://hooks.example.com/hooks/${name}` }),
  };
}

type Described = { name: string; preset: Preset; table: object; config: EndpointToml };

const all: readonly Described[] = GROUPS.flatMap(([, presets]) =>
  Object.entries(presets).map(([name, preset]) => {
    const table = tableOf(name, preset);
    return { name, preset, table, config: endpoint({ env: SENDER_SECRETS }).parse(table) };
  }),
);

/** Outcome of a replay for each class of presets, best first. */
const REPLAYS = {
  refused: "Within `past_secs`, it is the same call. Later, it is refused.",
  remembered: "It is the same call until 7 days (by default) after the call's end. Later, it is a new call.",
  "timed, id open": "Under another id, it is a new call. After `past_secs`, it is refused.",
  "timed, no id": "Each copy is a new call, also the sender's own retry. After `past_secs`, it is refused.",
  "id open": "Under another id, it is a new call.",
  "no id": "Each copy is a new call, also the sender's own retry.",
  token: "The request contains the secret. With it, an attacker can send any delivery.",
  jwt: "The token does not cover the body. Until it expires, an attacker can send any delivery with it.",
} as const;
type Replay = keyof typeof REPLAYS;

/** The outcomes of a replay. There are several if the request decides which scheme applies. */
export function replaysOf(config: EndpointToml): Replay[] {
  if (config.proof.by === "jwt") return ["jwt"];
  const coverage = config.proof.coverage;
  if (coverage === undefined) return ["token"];
  const signing = coverage.filter(({ algorithm }) => algorithm !== "equal");
  const byToken: Replay[] = signing.length < coverage.length ? ["token"] : [];
  return signing.length === 0 ? byToken : [replayOf(config, signing), ...byToken];
}

function replayOf({ delivery_id }: EndpointToml, coverage: readonly Coverage[]): Replay {
  const timed = isTimed(coverage);
  if (delivery_id === undefined) return timed ? "timed, no id" : "no id";
  if (!isCovered(toParts(delivery_id), coverage)) return timed ? "timed, id open" : "id open";
  return timed ? "refused" : "remembered";
}

/** The presets that refuse a replay. */
export const REPLAY_REFUSED: readonly string[] = all
  .filter(({ config }) => replaysOf(config).includes("refused"))
  .map(({ name }) => name);

const code = (text: string) => `\`${text}\``;
const linked = (name: string) => `[${name}](#${name})`;

/** The page docs/senders.md. */
export function sendersPage(): string {
  const groups = GROUPS.flatMap(([title, presets]) => [
    `## ${title}`,
    ...all.filter(({ name }) => Object.hasOwn(presets, name)).map(section),
  ]);
  return `${[INTRODUCTION, contents(), READING, replays(), BY_HAND, ...groups, ...keyTables()].join("\n\n")}\n`;
}

const INTRODUCTION = `# Senders

A preset describes a sender: its signature, handshake, delivery id, event type and answer. \`preset = "github"\` gives an endpoint
([webhooks.md](webhooks.md)) all keys of this description:

- A key of the endpoint overrides the preset's. A table, such as \`answer\`, is merged key by key. A list, such as \`forward_headers\`, is replaced.
- If the endpoint has another \`auth\`, the preset's credential keys are dropped.

This page is generated from \`shared/webhook-auth\`.`;

function contents(): string {
  const lines = GROUPS.map(
    ([title, presets]) => `| ${title} | ${Object.keys(presets).map(linked).join(", ")} |`,
  );
  return ["## Presets", "", "| | Presets |", "|---|---|", ...lines].join("\n");
}

/** Facts that hold for many presets. Their sections leave them out. */
const READING = `## How to read a section

The first line names the place at the sender where you set the endpoint's URL. *Your own secret* is a secret that you choose.
Otherwise, copy the secret that the sender shows there, unchanged. \`secret\` may be a list: each of its secrets is accepted. \`public_url\`
is the URL exactly as you wrote it at the sender. If a section shows no endpoint, write this one, with its preset:

\`\`\`toml webhooks.toml whole
[[endpoints]]
path = "/hooks/github"
job_id = 1
preset = "github"
secret = "env:POSTERN_GITHUB_SECRET"
\`\`\`

| Line | Meaning | If it is missing |
|---|---|---|
| Signature | Header, form, algorithm, and the signed text if it is not the body. The form must be exact: \`<hex>\` is lower case, \`<HEX>\` upper case, and \`<base64>\` has its padding. \`…,v1=<hex>,…\` is a list: one valid \`v1\` is enough, and other items are ignored. | |
| Secret | Form of \`secret\`. | Text, used as it stands. |
| Time | Where the signed time is, and its exact form. If no limit is named, it may be 300 s old or ahead. | No time is checked. |
| Delivery id, Event type | Where the value is. *Not signed*: an attacker who replays a delivery can change the value. The same holds for each forwarded header that is not in the signed text. | None. |
| Methods, Bodies | Accepted methods and encodings. | POST; encoded bodies are refused. |
| Forwarded | Headers that the runner gets. | None. |
| Handshake | A request that the preset answers as the sender expects. Every client gets the answer to a handshake without proof. | None. |
| Answer | Answer to an accepted delivery, and above a rate limit. | 200 or 202 with Postern's JSON, as the sender expects; 429. |`;

/** The handwritten part of the page: senders without a preset. */
const BY_HAND = readFileSync(new URL("senders-by-hand.md", import.meta.url), "utf8").trim();

function replays(): string {
  const rows = Object.entries(REPLAYS).map(([kind, words]) => {
    const names = all
      .filter(({ config }) => replaysOf(config).includes(kind as Replay))
      .map(({ name }) => linked(name));
    return `| ${words} | ${names.join(", ")} |`;
  });
  return `## Replays

A replay is a recorded delivery that an attacker sends again. \`idempotency_window_secs\` must not be shorter than \`past_secs\` and
\`future_secs\` together. A delivery without its id is a new call each time.

| A replay | Presets |
|---|---|
${rows.join("\n")}`;
}

/** The facts of a section, except the setup. */
function factsOf({ preset, config }: Described): string {
  const facts: (readonly [string, string])[] = [
    ...credentialFacts(preset, config),
    ...contentFacts(config),
    ...config.handshakes.map((handshake) => ["Handshake", handshakeWords(handshake)] as const),
    ...answerFacts(config),
    ...notesOf(preset, config).map((text) => ["Note", text] as const),
  ];
  return facts.map(([title, text]) => `- **${title}:** ${text}`).join("\n");
}

function section(described: Described): string {
  const { name, preset, table } = described;
  const facts = factsOf(described);
  const alike = all.find((each) => factsOf(each) === facts)?.name ?? name;
  const isUsual = Object.keys(table).join() === "path,job_id,preset,secret";
  return [
    `### ${name}`,
    `[${preset.sender}](${preset.source}). ${preset.setup}`,
    ...(isUsual ? [] : [`\`\`\`toml webhooks.toml whole\n[[endpoints]]\n${tomlOf(table)}\n\`\`\``]),
    alike === name ? facts : `Everything else is as for ${linked(alike)}.`,
    ...variantsOf(name),
  ].join("\n\n");
}

/** The lines of an endpoint in TOML. A nested table becomes an inline table. */
function tomlOf(table: object): string {
  const lines = Object.entries(table).map(([key, value]) => {
    const line = stringify({ [key]: value as string }).trim();
    return line.replace(/^\[.*\]\n(.*)$/, `${key} = { $1 }`);
  });
  return lines.join("\n");
}

function variantsOf(name: string): string[] {
  const variants = VARIANTS[name] ?? [];
  return variants.map(([when, endpoint]) => `${when}\n\n\`\`\`toml webhooks.toml whole\n${endpoint}\n\`\`\``);
}

function credentialFacts(preset: Preset, config: EndpointToml): (readonly [string, string])[] {
  const schemes = schemesOf(config.proof);
  if (schemes === undefined)
    return [
      ["Credential", credentialWords(preset, config)],
      ...(config.proof.coverage ?? []).flatMap(({ timestamp }) =>
        timestamp === undefined ? [] : [["Time", timeWords(timestamp)] as const],
      ),
    ];
  if (config.auth === "token") return [["Credential", schemes.map(signatureWords).join(" ")]];
  const lines = [
    ...schemes.map((scheme) => ["Signature", signatureWords(scheme)] as const),
    ...schemes.flatMap(({ timestamp }) =>
      timestamp === undefined ? [] : [["Time", timeWords(timestamp)] as const],
    ),
  ];
  return [...new Map(lines.map((line) => [line.join(), line])).values()];
}

function credentialWords({ endpoint }: Preset, config: EndpointToml): string {
  switch (config.auth) {
    case "bearer":
      return "`Authorization: Bearer <secret>`.";
    case "basic":
      return "`Authorization: Basic`, with `username` and the secret as password.";
    case "api-key":
      return `\`${endpoint.api_key_header}: <secret>\`.`;
    case "jwt":
      return jwtWords(endpoint, config);
    case "aws-sns":
      return "RSA signature in the message: [how it is checked](webhooks.md#amazon-sns).";
    case "paypal":
      return "RSA signature in `PayPal-Transmission-Sig`: [how it is checked](webhooks.md#paypal).";
    default:
      throw new Error(`no words for a preset with auth ${config.auth}`);
  }
}

function jwtWords({ claims = {}, jwks }: Preset["endpoint"], { proof }: EndpointToml): string {
  if (proof.by !== "jwt") throw new Error("the endpoint has no token");
  const { issuers, algorithms } = proof;
  const stated = Object.entries(claims).map(([name, value]) => code(`${name} = ${JSON.stringify(value)}`));
  return [
    `\`Authorization: Bearer <token>\`, a JWT signed with ${algorithms.join(" or ")} by a key of ${code(String(jwks))}.`,
    `Its \`iss\` is ${issuers.map(code).join(" or ")}, and its \`aud\` is \`audience\`.`,
    `It must have the claims in \`claims\`, and ${stated.join(" and ")}.`,
  ].join(" ");
}

/** Places of the values in a delivery, its methods and encodings, and the headers that the runner gets. */
function contentFacts(config: EndpointToml): (readonly [string, string])[] {
  const { methods, delivery_id, event_type, forward_headers, encoded_bodies } = config;
  const facts: (readonly [string, string])[] = [];
  if (delivery_id !== undefined) facts.push(["Delivery id", valueWords(delivery_id, config)]);
  if (event_type !== undefined) facts.push(["Event type", valueWords(event_type, config)]);
  if (methods.join() !== "POST") facts.push(["Methods", `${methods.join(" and ")}.`]);
  if (encoded_bodies === "decode") {
    const covered = config.proof.by === "schemes" ? config.proof.over : "received";
    facts.push(["Bodies", `gzip, deflate and br are accepted; the signature covers the body as ${covered}.`]);
  }
  if (forward_headers.length > 0) facts.push(["Forwarded", `${forward_headers.map(code).join(", ")}.`]);
  return facts;
}

function answerFacts({ answer }: EndpointToml): (readonly [string, string])[] {
  const words = answerWords(answer);
  return words === undefined ? [] : [["Answer", words]];
}

function valueWords(template: string, config: EndpointToml): string {
  const signing = (config.proof.coverage ?? []).filter(({ algorithm }) => algorithm !== "equal");
  if (signing.length === 0) return `${code(template)}.`;
  return `${code(template)}${isCovered(toParts(template), signing) ? "" : ", not signed"}.`;
}

/** Weaknesses of the credential besides replays. Some follow from the description, and the preset names the others. */
function notesOf({ open = [] }: Preset, config: EndpointToml): string[] {
  const schemes = (schemesOf(config.proof) ?? []).filter(({ algorithm }) => algorithm !== "equal");
  const texts: string[] = [];
  if (schemes.some(({ signed = "{body}" }) => !/\{(?:body|form)\}/.test(signed)))
    texts.push(
      "Only the named fields of the body are signed. An attacker who can hold back a delivery can send another event in its place.",
    );
  if (schemes.some(({ algorithm }) => algorithm === "ecdsa-p256"))
    texts.push("An ECDSA signature can be rewritten into another valid signature of the same message.");
  if (config.handshakes.some(({ mac, proof }) => mac !== undefined && proof !== "credential"))
    texts.push(
      "The answer has a MAC under the signing key. So a delivery is refused if its body is empty, or only up to 1024 letters, digits and `._~+/=-`.",
    );
  return [...texts, ...open];
}
