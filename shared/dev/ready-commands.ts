import type { EndpointToml } from "../config/endpoint-toml.ts";
import { hmacSha256 } from "../crypto/hmac.ts";
import type { Secret } from "../crypto/secret.ts";
import { PROGRAM_OF_CLONE } from "../lifecycle/environment.ts";
import { shellQuote } from "../text/shell-quote.ts";
import { DEV_JOBS, exampleBody } from "./config.ts";

type CurlOptions = {
  /** `host:port` of the gateway. */
  address: string;
  body: string;
  contentType?: string;
  /**
   * Whether the credential may be shown: only one that was made for this run may. Otherwise the command has the shell's
   * $SECRET instead. A signature is always shown, because it is valid for this body only.
   */
  showSecret: boolean;
};

/**
 * A command that a terminal takes as it stands and the gateway accepts. Not for an endpoint whose sender signs in a way of
 * its own (`signature`), nor for one whose secret is a field of the body.
 */
export function readyCurl(endpoint: EndpointToml, options: CurlOptions): string {
  const { address, body, contentType = "application/json" } = options;
  const headers = [shellQuote(`Content-Type: ${contentType}`), ...credential(endpoint, options)];
  const flags = headers.map((header) => `-H ${header}`);
  return [
    "curl",
    "-i",
    shellQuote(`http://${address}${endpoint.path}${query(endpoint, options)}`),
    ...flags,
    "--data-raw",
    shellQuote(body),
  ].join(" ");
}

function query(endpoint: EndpointToml, { showSecret }: CurlOptions): string {
  if (endpoint.auth !== "token" || endpoint.token_query === undefined) return "";
  const secret = showSecret ? encodeURIComponent(first(endpoint.secret)) : "$SECRET";
  return `?${encodeURIComponent(endpoint.token_query)}=${secret}`;
}

/** Whether readyCurl can make a command for this endpoint. */
export function hasReadyCurl(endpoint: EndpointToml): boolean {
  if (endpoint.auth === "signature") return false;
  return endpoint.auth !== "token" || endpoint.token_query !== undefined;
}

function credential(endpoint: EndpointToml, { body, showSecret }: CurlOptions): string[] {
  const header = credentialHeader(endpoint, body, showSecret ? undefined : "$SECRET");
  if (header === undefined) return [];
  const line = `${header.name}: ${header.value}`;
  return [line.endsWith("$SECRET") && !showSecret ? `"${line}"` : shellQuote(line)];
}

/** A command that signs and sends a sample as the endpoint's sender would, with the secret that the configuration names. */
export function readySend(path: string, configDir: string, program: string): string {
  return `${program} send ${shellQuote(path)} --config-dir ${shellQuote(configDir)}`;
}

/** A command that a terminal takes as it stands and that buys the job. It shows the payer's key, so only a devnet's will do. */
export function readyPay(
  jobUrl: string,
  jobId: number,
  payerKey: string,
  program = PROGRAM_OF_CLONE,
): string {
  const body = jobId === DEV_JOBS.slow ? exampleBody(jobId) : "hi";
  return `POSTERN_PAYER_KEY=${payerKey} ${program} pay ${shellQuote(jobUrl)} --body ${shellQuote(body)}`;
}

type CredentialHeader = { name: string; value: string };

/**
 * The credential header of a webhook with this body, made with the endpoint's first secret; undefined if it has none. `shownAs`
 * replaces a secret that may not be shown; a signature is always the real one.
 */
export function credentialHeader(
  endpoint: EndpointToml,
  body: string,
  shownAs?: string,
): CredentialHeader | undefined {
  switch (endpoint.auth) {
    case "none":
    case "token":
    case "signature":
      return undefined;
    case "basic": {
      const credentials = `${endpoint.username}:${shownAs ?? first(endpoint.secret)}`;
      return { name: "Authorization", value: `Basic ${Buffer.from(credentials).toString("base64")}` };
    }
    case "bearer":
      return { name: "Authorization", value: `Bearer ${shownAs ?? first(endpoint.secret)}` };
    case "api-key":
      return { name: endpoint.api_key_header, value: shownAs ?? first(endpoint.secret) };
    case "hmac-sha256":
      return { name: "X-Signature-256", value: `sha256=${signature(endpoint.secret, body)}` };
  }
}

function first([secret]: readonly Secret[]): string {
  return secret?.reveal() ?? "";
}

function signature([secret]: readonly Secret[], body: string): string {
  return secret === undefined ? "" : hmacSha256(secret, Buffer.from(body)).toString("hex");
}
