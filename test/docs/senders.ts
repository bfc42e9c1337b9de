import { readFileSync } from "node:fs";
import { stringify } from "smol-toml";
import { type EndpointToml, endpoint } from "../../shared/config/endpoint-toml.ts";
import { namesUser, schemesOf } from "../../shared/webhook-auth/auth-modes.ts";
import { isCovered, isTimed } from "../../shared/webhook-auth/coverage.ts";
import { chains } from "../../shared/webhook-auth/presets/chains.ts";
import { codeHosts } from "../../shared/webhook-auth/presets/code-hosts.ts";
import { commerce } from "../../shared/webhook-auth/presets/commerce.ts";
import { documents } from "../../shared/webhook-auth/presets/documents.ts";
import { messaging } from "../../shared/webhook-auth/presets/messaging.ts";
import { monitoring } from "../../shared/webhook-auth/presets/monitoring.ts";
import { standardWebhooks } from "../../shared/webhook-auth/presets/standard-webhooks.ts";
import type { Preset } from "../../shared/webhook-auth/sender-description.ts";
import type { Scheme } from "../../shared/webhook-auth/signature-scheme.ts";
import { toParts } from "../../shared/webhook-auth/template.ts";
import { described } from "../fixtures/senders/endpoints.ts";
import { keyTables } from "./sender-keys.ts";
import { VARIANTS } from "./sender-variants.ts";
import { answerWords, handshakeWords, signatureWords, timeWords } from "./sender-words.ts";

/** The sections of docs/senders.md. Each preset is in one. */
export const GROUPS: readonly (readonly [title: string, presets: Readonly<Record<string, Preset>>])[] = [
  ["Code", codeHosts],
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
  ["POSTERN_META_VERIFY_TOKEN", "another text that is long enough"],
  ...described.map(({ preset, key }) => [secretVariable(preset), key("documented").configured]),
]);

function secretVariable(preset: string): string {
  return `POSTERN_${preset.replaceAll("-", "_").toUpperCase()}_SECRET`;
}

/** What an operator writes: as little as the preset needs. */
function tableOf(name: string, preset: Preset) {
  const described = preset.endpoint;
  const schemes = [described.signature ?? []].flat();
  const proofs = (described.handshakes ?? [])
    .map(({ proof }) => proof)
    .filter((proof) => typeof proof === "object");
  const signsUrl = schemes.some(({ signed = "" }) => signed.includes("{url}"));
  const secretComes = proofs.some((proof) => "secret_header" in proof);
  return {
    path: `/hooks/${name}`,
    job_id: 1,
    preset: name,
    ...(namesUser(described.auth) && { username: name }),
    ...(!secretComes && { secret: `env:${secretVariable(name)}` }),
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

/** What becomes of a recorded delivery that somebody sends again: the classes of presets, best first. */
const REPLAYS = {
  refused: "A replay is refused: within `past_secs` it is the same call, and later it is too old.",
  remembered:
    "A replay is the same call for as long as Postern remembers the id (by default 7 days after the call's end), and after that a new call.",
  "timed, id open": "Within `past_secs`, a replay under another id is a new call. Later, it is refused.",
  "timed, no id":
    "Within `past_secs`, each copy of a delivery is a new call, also the sender's own retry. Later, it is refused.",
  "id open": "A replay under another id is a new call.",
  "no id": "Each copy of a delivery is a new call, also the sender's own retry.",
  token: "The request contains the secret itself: with it, an attacker can send any delivery.",
} as const;
type Replay = keyof typeof REPLAYS;

/** More than one if the request decides which of the schemes counts. */
export function replaysOf(config: EndpointToml): Replay[] {
  const schemes = schemesOf(config.proof);
  if (schemes === undefined) return ["token"];
  const signing = schemes.filter(({ algorithm }) => algorithm !== "equal");
  const byToken: Replay[] = signing.length < schemes.length ? ["token"] : [];
  return signing.length === 0 ? byToken : [replayOf(config, signing), ...byToken];
}

function replayOf({ delivery_id }: EndpointToml, schemes: readonly Scheme[]): Replay {
  const timed = isTimed(schemes);
  if (delivery_id === undefined) return timed ? "timed, no id" : "no id";
  if (!isCovered(toParts(delivery_id), schemes)) return timed ? "timed, id open" : "id open";
  return timed ? "refused" : "remembered";
}

/** The presets with which a replay is refused. */
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
  return `${[INTRODUCTION, contents(), BY_HAND, replays(), ...groups, ...keyTables()].join("\n\n")}\n`;
}

const INTRODUCTION = `# Senders

This page is generated from the descriptions in \`shared/webhook-auth\`. For each preset, it says what to set at the sender, what Postern
checks, and what the signature does not cover. Endpoints are described in [webhooks.md](webhooks.md).

A preset describes a sender: how it signs, how it sets a webhook up, and which answer it accepts as a success. It also says where a
request has the delivery id and the event type. \`preset = "github"\` gives an endpoint all keys of that description. A key of the endpoint
overrides the preset's. A table, such as \`answer\` or \`signature\`, is merged key by key; a list, such as \`forward_headers\`, is replaced. If
the endpoint has another \`auth\`, the preset's credential keys are dropped.

Unless a preset says otherwise: deliveries come with POST; encoded bodies are refused; an accepted delivery gets 202
with Postern's JSON, and one above a rate limit gets 429. \`secret\` may be a list everywhere, and each of its secrets is accepted. A signature has exactly
one spelling: \`<hex>\` is lower case, \`<HEX>\` is upper case, and \`<base64>\` has its padding. A time must have exactly the named
form, and is compared with the gateway's clock.

"Signed" means that the signature covers a value. An attacker who replays a recorded delivery can change every value that is not
signed. This includes each forwarded header that is not in the signed text.`;

function contents(): string {
  const lines = GROUPS.map(
    ([title, presets]) => `| ${title} | ${Object.keys(presets).map(linked).join(", ")} |`,
  );
  return ["## Presets", "", "| | Presets |", "|---|---|", ...lines, "", TWO_OF_DISCORD].join("\n");
}

const TWO_OF_DISCORD = `Discord has two presets: \`discord-interactions\` for slash commands and buttons, \`discord-events\` for the events of an app.`;

/** What is written by hand: a sender without a preset, and how to try one. */
const BY_HAND = readFileSync(new URL("senders-by-hand.md", import.meta.url), "utf8").trim();

function replays(): string {
  const rows = Object.entries(REPLAYS).map(([kind, words]) => {
    const names = all
      .filter(({ config }) => replaysOf(config).includes(kind as Replay))
      .map(({ name }) => linked(name));
    return `| ${words} | ${names.join(", ")} |`;
  });
  return `## Replays

Here, a replay is a recorded delivery that an attacker sends again. If the signature covers both the time and the delivery id, it is
refused. If a preset has a delivery id, but a delivery comes without one, each copy is a new call. An attacker cannot remove a signed
id. \`idempotency_window_secs\` must not be shorter than \`past_secs\` and \`future_secs\` together.

| A replay | Presets |
|---|---|
${rows.join("\n")}`;
}

function section({ name, preset, table, config }: Described): string {
  const facts: (readonly [string, string])[] = [
    ["At the sender", preset.setup],
    ...credentialFacts(preset, config),
    ...contentFacts(config),
    ...config.handshakes.map((handshake) => ["Handshake", handshakeWords(handshake)] as const),
    ["Answer", answerWords(config.answer)],
    ...replayFacts(config),
    ...notCovered(preset, config).map((text) => ["Not covered", text] as const),
  ];
  return `### ${name}

${preset.sender}: [its documentation](${preset.source}).

\`\`\`toml webhooks.toml whole
[[endpoints]]
${stringify(table).trim()}
\`\`\`

${[facts.map(([title, text]) => `- **${title}:** ${text}`).join("\n"), ...variantsOf(name)].join("\n\n")}`;
}

function variantsOf(name: string): string[] {
  const variants = VARIANTS[name] ?? [];
  return variants.map(([when, endpoint]) => `${when}\n\n\`\`\`toml webhooks.toml whole\n${endpoint}\n\`\`\``);
}

function replayFacts(config: EndpointToml): (readonly [string, string])[] {
  const kinds = replaysOf(config);
  const titleOf = (kind: Replay) => {
    if (kinds.length === 1) return "Replay";
    return kind === "token" ? "Replay with a token" : "Replay with a signature";
  };
  return kinds.map((kind) => [titleOf(kind), REPLAYS[kind]]);
}

function credentialFacts(preset: Preset, config: EndpointToml): (readonly [string, string])[] {
  const schemes = schemesOf(config.proof);
  if (schemes === undefined) return [["Credential", credentialWords(preset, config)]];
  if (config.auth === "token") return [["Credential", schemes.map(signatureWords).join(" ")]];
  const times = new Set(
    schemes.flatMap(({ timestamp }) => (timestamp === undefined ? [] : timeWords(timestamp))),
  );
  return [
    ...schemes.map((scheme) => ["Signature", signatureWords(scheme)] as const),
    ...[...times].map((words) => ["Time", words] as const),
    ...(times.size === 0 ? [["Time", "not signed."] as const] : []),
  ];
}

function credentialWords({ endpoint }: Preset, config: EndpointToml): string {
  switch (config.auth) {
    case "bearer":
      return "`Authorization: Bearer <secret>`.";
    case "basic":
      return "`Authorization: Basic`, with `username` and the secret as password.";
    case "api-key":
      return `\`${endpoint.api_key_header}: <secret>\`, with nothing before the secret.`;
    default:
      throw new Error(`no words for a preset with auth ${config.auth}`);
  }
}

/** What is read of a delivery. */
function contentFacts(config: EndpointToml): (readonly [string, string])[] {
  const { methods, delivery_id, event_type, forward_headers, encoded_bodies } = config;
  const facts: (readonly [string, string])[] = [
    ["Delivery id", delivery_id === undefined ? "none." : valueWords(delivery_id, config)],
    ["Event type", event_type === undefined ? "none." : valueWords(event_type, config)],
  ];
  if (methods.join() !== "POST") facts.push(["Methods", `${methods.join(" and ")}.`]);
  if (encoded_bodies === "decode") {
    const covered = config.proof.by === "schemes" ? config.proof.over : "received";
    facts.push(["Bodies", `gzip, deflate and br are accepted; the signature covers the body as ${covered}.`]);
  }
  if (forward_headers.length > 0) facts.push(["Forwarded", `${forward_headers.map(code).join(", ")}.`]);
  return facts;
}

function valueWords(template: string, config: EndpointToml): string {
  const signing = (schemesOf(config.proof) ?? []).filter(({ algorithm }) => algorithm !== "equal");
  if (signing.length === 0) return `${code(template)}.`;
  return `${code(template)}, ${isCovered(toParts(template), signing) ? "signed" : "not signed"}.`;
}

/** What is not covered, beside replays: what follows from the description, and what the preset says. */
function notCovered({ open = [] }: Preset, config: EndpointToml): string[] {
  const schemes = (schemesOf(config.proof) ?? []).filter(({ algorithm }) => algorithm !== "equal");
  const texts: string[] = [];
  if (schemes.some(({ signed = "{body}" }) => !/\{(?:body|form)\}/.test(signed)))
    texts.push(
      "Only the fields of the body that are named above are signed. An attacker who can hold back a delivery can send another event in its place.",
    );
  if (schemes.some(({ algorithm }) => algorithm === "ecdsa-p256"))
    texts.push("An ECDSA signature can be rewritten into another valid signature of the same message.");
  if (config.handshakes.some(({ proof }) => proof === "none"))
    texts.push("Every client gets the answer to the handshake.");
  if (config.handshakes.some(({ mac, proof }) => mac !== undefined && proof !== "credential"))
    texts.push(
      "That answer holds a MAC under the signing key. So a delivery is refused if its whole body is empty or consists only of up to 1024 letters, digits and `._~+/=-`.",
    );
  return [...texts, ...open];
}
