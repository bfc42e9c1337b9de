import { loadConfig } from "../../../shared/config/config-dir.ts";
import type { EndpointToml } from "../../../shared/config/endpoint-toml.ts";
import { messageFor } from "../../../shared/config/problem.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { type Env, secretValue } from "../../../shared/config/secrets.ts";
import { type WebhooksToml, webhooksToml } from "../../../shared/config/webhooks-toml.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { isAbsent } from "../../../shared/platform/text/read-text.ts";
import { AUTH_MODES, type AuthName } from "../../../shared/webhook-auth/auth-modes.ts";
import { PRESETS } from "../../../shared/webhook-auth/presets/presets.ts";
import { parsePrivateKey, publicHalf } from "../../../shared/webhook-auth/private-key.ts";
import type { Sender } from "../../../shared/webhook-auth/sample/delivery.ts";
import { needsPrivateKey, type Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";
import { whyUnknown } from "../endpoints/unknown-path.ts";
import { signingKeyFor } from "./private-key.ts";

export type SendOptions = {
  configDir: string;
  preset?: string;
  event?: string;
  body?: string;
  secret?: string;
  key?: string;
  gateway?: URL;
  deliveryId?: string;
  header?: [name: string, value: string][];
  repeat: number;
  dryRun?: boolean;
  json?: boolean;
  quiet?: boolean;
};

/** Finds out how to sign the webhook and where to send it. Reads the configuration only if the options do not say all of that. */
export function findSender(path: string, options: SendOptions, env: Env): Sender {
  const { preset, configDir } = options;
  const secret = options.secret === undefined ? undefined : readSecret("--secret", options.secret, env);
  const key = options.key === undefined ? undefined : readSecret("--key", options.key, env);
  const knowsAll = preset !== undefined && options.gateway !== undefined && (secret ?? key) !== undefined;
  const hasConfig = !knowsAll && !isAbsent(configDir);
  const webhooks = hasConfig
    ? loadConfig(readWebhooks, { dir: configDir, env, reader: "command" }).webhooks
    : undefined;
  const url = urlOf(path, options.gateway ?? addressOf(webhooks));
  const configured = webhooks?.endpoints.find((each) => each.path === path);
  if (configured !== undefined && (preset ?? configured.preset) === configured.preset)
    return toSender(url, configured, secret === undefined ? configured.secret : [secret], key);
  if (preset === undefined) {
    const why = hasConfig ? whyUnknown(path, webhooks?.endpoints) : `${configDir} does not exist`;
    throw new Error(`${why}; use --preset and --secret to send without configuration`);
  }
  const endpoint = endpointOfPreset({ path, preset, url, secret, key });
  return toSender(url, endpoint, endpoint.secret, key);
}

function toSender(
  url: URL,
  endpoint: EndpointToml,
  secrets: readonly Secret[],
  key: Secret | undefined,
): Sender {
  return {
    url,
    endpoint,
    secrets,
    signingKey: (signed) => signingKeyFor(signed, key, secrets),
  };
}

function readSecret(option: string, text: string, env: Env): Secret {
  const { data, error } = secretValue({ env }).safeParse(text);
  if (data !== undefined) return data;
  throw new Error(`${option} ${error?.issues[0]?.message ?? "cannot be read"}`);
}

function addressOf(webhooks: WebhooksToml | undefined): URL {
  const address = webhooks?.bind_address;
  if (address === undefined)
    throw new Error(
      "the URL of the gateway is not known; set it with --gateway, for example --gateway http://127.0.0.1:9090",
    );
  return new URL(`http://${address.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:")}`);
}

/** Returns the URL of the endpoint. `base` is the base URL of the gateway, or already the URL of the endpoint. */
function urlOf(path: string, base: URL): URL {
  const prefix = base.pathname.replace(/\/$/, "");
  return new URL(prefix.endsWith(path) ? base.href : `${base.origin}${prefix}${path}`);
}

type PresetOptions = {
  path: string;
  preset: string;
  url: URL;
  secret: Secret | undefined;
  key: Secret | undefined;
};

/** Makes an endpoint from the preset of a sender alone, as if webhooks.toml configured it. */
function endpointOfPreset({ path, preset, url, secret, key }: PresetOptions): EndpointToml {
  const { auth, signature, handshakes = [] } = PRESETS[preset]?.endpoint ?? {};
  const schemes = [signature ?? []].flat();
  const signsUrl = schemes.some(({ signed = "" }) => signed.includes("{url}"));
  const asksToken = handshakes.some(({ proof }) => typeof proof === "object" && "verify_token" in proof);
  const text = secret?.reveal() ?? publicHalfOf(schemes, key);
  return resolveTable({
    path,
    preset,
    job_id: 0,
    ...credentialKeys(auth, text),
    ...(signsUrl && { public_url: url.href }),
    ...(asksToken && { verify_token: "not used" }),
  });
}

/**
 * Returns the keys of webhooks.toml that configure the sender's credential. For Amazon SNS and PayPal these have
 * example values, because this command cannot sign as these senders do.
 */
function credentialKeys(auth: AuthName | undefined, secret: string | undefined) {
  if (auth === "basic") return userAndPassword(secret);
  return auth === "aws-sns" || auth === "paypal"
    ? { ...AUTH_MODES[auth].example, secret: undefined }
    : { secret };
}

function userAndPassword(text = ""): { username: string; secret: string } {
  const [, username, secret] = /^([^:]*):(.*)$/.exec(text) ?? [];
  if (username !== undefined && secret !== undefined) return { username, secret };
  throw new Error("--secret must hold the user and password of this sender, as user:password");
}

const CONFIGURE = "--config-dir for a configuration with this endpoint";
const NO_SECRET = `; use --secret env:NAME or file:/path, or ${CONFIGURE}`;

/**
 * Validates a table as it would be in webhooks.toml, and returns its endpoint. The secret is passed in an environment
 * variable to which the table refers. If it were in the table itself, a secret such as `env:NAME` would be read as a
 * reference.
 */
function resolveTable({ secret, ...table }: Record<string, unknown> & { secret: string | undefined }) {
  const env = { POSTERN_SEND_SECRET: secret };
  const endpoints = [{ ...table, ...(secret !== undefined && { secret: "env:POSTERN_SEND_SECRET" }) }];
  const { data, error } = webhooksToml({ env }).safeParse({ endpoints }, { error: messageFor });
  const [endpoint] = data?.endpoints ?? [];
  if (endpoint !== undefined) return endpoint;
  const problems = (error?.issues ?? []).map(({ path, message }) => `${path.slice(2).join(".")} ${message}`);
  const isOfToken = problems.some((each) => each.startsWith("audience "));
  const how = problems.includes("secret is missing") ? NO_SECRET : isOfToken ? `; use ${CONFIGURE}` : "";
  const reason = `cannot make a delivery: ${problems.join("; ")}${how}`;
  throw new AppError("start.config_invalid", { reason });
}

function publicHalfOf(schemes: readonly Scheme[], key: Secret | undefined): string | undefined {
  const scheme = schemes.find(({ algorithm }) => needsPrivateKey(algorithm));
  const parsed = scheme && key && parsePrivateKey(key.reveal(), scheme.algorithm);
  return parsed && publicHalf(parsed, scheme.secret_format);
}
