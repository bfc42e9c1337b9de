import { loadConfig } from "../../../shared/config/config-dir.ts";
import type { EndpointToml } from "../../../shared/config/endpoint-toml.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { type Env, secretValue } from "../../../shared/config/secrets.ts";
import { type WebhooksToml, webhooksToml } from "../../../shared/config/webhooks-toml.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { isAbsent } from "../../../shared/platform/text/read-text.ts";
import { namesUser } from "../../../shared/webhook-auth/auth-modes.ts";
import { PRESETS } from "../../../shared/webhook-auth/presets/presets.ts";
import { parsePrivateKey, publicHalf } from "../../../shared/webhook-auth/private-key.ts";
import type { Sender } from "../../../shared/webhook-auth/sample/delivery.ts";
import { needsPrivateKey, type Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";
import { whyUnknown } from "../endpoints/unknown-path.ts";
import { privateKeyFor } from "./private-key.ts";

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

/** Finds what the options leave out in the configuration, which is read only then. */
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
  const endpoint = madeUp({ path, preset, url, secret, key });
  return toSender(url, endpoint, endpoint.secret, key);
}

function toSender(
  url: URL,
  endpoint: EndpointToml,
  secrets: readonly Secret[],
  key: Secret | undefined,
): Sender {
  return { url, endpoint, secrets, privateKey: (scheme) => privateKeyFor(scheme, key, secrets) };
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

/** The address may be that of the endpoint itself, or of what the gateway is mounted under. */
function urlOf(path: string, base: URL): URL {
  const prefix = base.pathname.replace(/\/$/, "");
  return new URL(prefix.endsWith(path) ? base.href : `${base.origin}${prefix}${path}`);
}

type MadeUp = {
  path: string;
  preset: string;
  url: URL;
  secret: Secret | undefined;
  key: Secret | undefined;
};

/** The endpoint of a preset that no configuration has, as it would be configured. */
function madeUp({ path, preset, url, secret, key }: MadeUp): EndpointToml {
  const { auth, signature, handshakes = [] } = PRESETS[preset]?.endpoint ?? {};
  const schemes = [signature ?? []].flat();
  const signsUrl = schemes.some(({ signed = "" }) => signed.includes("{url}"));
  const asksToken = handshakes.some(({ proof }) => typeof proof === "object" && "verify_token" in proof);
  const text = secret?.reveal() ?? publicHalfOf(schemes, key);
  return configuredAs({
    path,
    preset,
    job_id: 0,
    ...(auth !== undefined && namesUser(auth) ? userAndPassword(text) : { secret: text }),
    ...(signsUrl && { public_url: url.href }),
    ...(asksToken && { verify_token: "not used" }),
  });
}

function userAndPassword(text = ""): { username: string; secret: string } {
  const [, username, secret] = /^([^:]*):(.*)$/.exec(text) ?? [];
  if (username !== undefined && secret !== undefined) return { username, secret };
  throw new Error("--secret must hold the user and password of this sender, as user:password");
}

const NO_SECRET =
  "; use --secret env:NAME or file:/path, or --config-dir for a configuration with this endpoint";

/** A secret such as env:X has been looked up by now, and is not to be looked up again. */
function configuredAs({ secret, ...table }: Record<string, unknown> & { secret: string | undefined }) {
  const env = { POSTERN_SEND_SECRET: secret };
  const endpoints = [{ ...table, ...(secret !== undefined && { secret: "env:POSTERN_SEND_SECRET" }) }];
  const { data, error } = webhooksToml({ env }).safeParse({ endpoints });
  const [endpoint] = data?.endpoints ?? [];
  if (endpoint !== undefined) return endpoint;
  const problems = (error?.issues ?? []).map(({ path, message }) => `${path.slice(2).join(".")} ${message}`);
  const how = problems.includes("secret is missing") ? NO_SECRET : "";
  const reason = `cannot make a delivery: ${problems.join("; ")}${how}`;
  throw new AppError("start.config_invalid", { reason });
}

function publicHalfOf(schemes: readonly Scheme[], key: Secret | undefined): string | undefined {
  const scheme = schemes.find(({ algorithm }) => needsPrivateKey(algorithm));
  const parsed = scheme && key && parsePrivateKey(key.reveal(), scheme.algorithm);
  return parsed && publicHalf(parsed, scheme.secret_format);
}
