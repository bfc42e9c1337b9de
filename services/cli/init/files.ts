import { AUTH_MODES } from "../../../shared/webhook-auth/auth-modes.ts";
import { PRESETS } from "../../../shared/webhook-auth/presets/presets.ts";
import type { Preset } from "../../../shared/webhook-auth/sender-description.ts";
import { toUnits } from "../text.ts";
import type { Choices } from "./choices.ts";
import { newSecret, newSecretFor, newWhsec } from "./secrets.ts";

/** A configuration file, named by its path in the directory. */
export type NewFile = { name: string; text: string; isSecret?: boolean };

export const SECRETS = "secrets";

/**
 * Returns the files of a new configuration with these choices. `schema` is the relative path from the directory to
 * Postern's JSON Schemas, which editors use to check the files. Undefined if there are no schemas.
 */
export function filesFor(choices: Choices, schema: string | undefined, deploymentId: string): NewFile[] {
  const { webhooks, payments } = choices;
  const head = (name: string) => (schema === undefined ? "" : `#:schema ${schema}/${name}.json\n\n`);
  const toml = (name: string, text: string): NewFile => ({ name: `${name}.toml`, text: head(name) + text });
  const runnerSecret = secretFile("runner", newSecret());
  const callbacksSecret = secretFile("callbacks", newWhsec());
  return [
    { name: ".gitignore", text: `/${SECRETS}/\n` },
    runnerSecret.file,
    callbacksSecret.file,
    toml("postern", posternText(choices, runnerSecret.reference, callbacksSecret.reference, deploymentId)),
    ...(webhooks === undefined ? [] : webhookFiles(choices.job, webhooks, toml)),
    ...(payments === undefined ? [] : paymentFiles(choices.job, payments, toml)),
  ];
}

type Toml = (name: string, text: string) => NewFile;

/**
 * Makes a file with a secret, and the text with which a TOML file refers to it. The path in this text is relative to
 * the configuration directory, so that the directory can be moved or mounted elsewhere.
 */
function secretFile(name: string, value: string): { file: NewFile; reference: string } {
  const file = { name: `${SECRETS}/${name}`, text: `${value}\n`, isSecret: true };
  return { file, reference: quoted(`file:${file.name}`) };
}

/** Formats a value as TOML on one line. */
function tomlText(value: unknown): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return JSON.stringify(value);
  return `{ ${Object.entries(value)
    .map(([key, each]) => `${key} = ${tomlText(each)}`)
    .join(", ")} }`;
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

function posternText(
  { redisUrl, runner }: Choices,
  secret: string,
  callbacksSecret: string,
  deploymentId: string,
): string {
  return `# Settings of all processes. See docs/configuration.md.

[redis]
url = ${quoted(redisUrl)}
deployment_id = ${quoted(deploymentId)}   # the data in Redis has it too, so that another Redis is refused; docs/backup.md
durability = "strict"               # Redis must run with appendonly yes and appendfsync always

[runner]
url = ${quoted(runner)}
secret = ${secret}   # signs requests to your runner; docs/runner.md shows how to verify them

[callbacks]
secret = ${callbacksSecret}   # signs callbacks; docs/callbacks.md shows how to verify them
`;
}

function webhookFiles(job: number, { preset, path }: NonNullable<Choices["webhooks"]>, toml: Toml) {
  const described = preset === undefined ? undefined : PRESETS[preset];
  const name = preset ?? "inbox";
  const { files, lines } = credentialsOf(name, described);
  const sender =
    preset === undefined
      ? `auth = "hmac-sha256"                # X-Signature-256: the HMAC-SHA256 of the body, in hex
idempotency_header = "X-Delivery-Id"   # a repeat of an id is the same call`
      : `preset = ${quoted(preset)}   # see docs/senders.md`;
  const text = `# Settings of the webhooks gateway. See docs/webhooks.md.

bind_address = "127.0.0.1:9090"     # "0.0.0.0:9090" accepts other machines; put a TLS proxy in front of it

[[endpoints]]
path = ${quoted(path)}
name = ${quoted(name)}
job_id = ${job}
${sender}
${lines.join("\n")}
`;
  return [...files, toml("webhooks", text)];
}

/**
 * Makes new credentials for a sender, and the lines that configure them. If the sender creates its own credentials, the
 * operator must replace the new ones with these.
 */
function credentialsOf(name: string, preset: Preset | undefined) {
  const proofs = (preset?.endpoint.handshakes ?? []).flatMap(({ proof }) =>
    typeof proof === "object" ? [proof] : [],
  );
  const schemes = [preset?.endpoint.signature ?? []].flat();
  const comesLater = proofs.some((proof) => "secret_header" in proof);
  const mode = preset && AUTH_MODES[preset.endpoint.auth];
  const made = [
    ...(comesLater || mode?.secret === "none"
      ? []
      : [{ key: "secret", ...secretFile(name, newSecretFor(preset)) }]),
    ...(proofs.some((proof) => "verify_token" in proof)
      ? [{ key: "verify_token", ...secretFile(`${name}-verify-token`, newSecret()) }]
      : []),
  ];
  const lines = [
    ...made.map(({ key, reference }) => `${key} = ${reference}`),
    ...Object.entries(mode?.example ?? {}).map(
      ([key, value]) => `${key} = ${tomlText(value)}   # replace it with ${mode?.replaceWith}`,
    ),
    ...(schemes.some(({ signed = "" }) => signed.includes("{url}"))
      ? [
          `public_url = "https://hooks.example.com/hooks/${name}"   # replace it with the URL as it is written at the sender`,
        ]
      : []),
    ...(comesLater ? ["# The sender sends its secret in a handshake: run postern endpoints open"] : []),
  ];
  return { files: made.map(({ file }) => file), lines };
}

const TOKENS = {
  devnet: {
    facilitator: "http://127.0.0.1:8546",
    rpcUrl: "http://127.0.0.1:8545",
    payTo: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    confirmations: 1,
    what: "USDC of postern devnet, without value",
  },
  "base-sepolia": {
    facilitator: "https://x402.org/facilitator",
    rpcUrl: "https://sepolia.base.org",
    payTo: undefined,
    confirmations: 2,
    what: "Test USDC of Base Sepolia",
  },
} as const;

function paymentFiles(job: number, { price, token, payTo }: NonNullable<Choices["payments"]>, toml: Toml) {
  const { facilitator, rpcUrl, payTo: proposed, confirmations, what } = TOKENS[token];
  const quote = secretFile("quote", newSecret());
  const text = `# Settings of the payment gateway. See docs/payments.md.

bind_address = "127.0.0.1:8402"
public_url = "http://127.0.0.1:8402"   # URL for payers; use https for payers on other machines
facilitator_url = ${quoted(facilitator)}
quote_secret = ${quote.reference}

# ${what}. With this rate, 10^18 in job_pricing.toml is 1 USDC.
[[accepted_tokens]]
network = "eip155:84532"
asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
symbol = "USDC"
decimals = 6
pay_to = ${quoted(payTo ?? proposed ?? "")}
rate_per_native_unit = "1"
rpc_url = ${quoted(rpcUrl)}
confirmations = ${confirmations}
eip3009_name = "USDC"
eip3009_version = "2"
`;
  const prices = `# Prices by service and job. See docs/payments.md.

[0]
${job} = "${toUnits(price, 18)}"   # ${price} USDC
`;
  return [quote.file, toml("x402", text), toml("job_pricing", prices)];
}
