import { proofOf, secretsOf, secretText } from "../config/endpoint-fields.ts";
import type { EndpointToml } from "../config/endpoint-toml.ts";
import { hmacSha256 } from "../platform/crypto/hmac.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { PROGRAM_OF_CLONE } from "../platform/lifecycle/environment.ts";
import { shellQuote } from "../platform/text/shell-quote.ts";

type CurlOptions = {
  /** `host:port` of the gateway. */
  address: string;
  body: string;
  contentType?: string;
  /** Only a secret that was made for this run may be shown. Of another one the variable that holds it is named, if there is one. */
  secret?: "shown" | { variable: string | undefined };
};

/**
 * A command that a terminal takes as it stands and the gateway accepts. A signature is always shown, because it is valid for this body only.
 * Undefined if there is no such command: for a sender that signs in a way of its own, for a secret in a field of the body, and for one that
 * may not be shown and that no variable holds as the request has it.
 */
export function readyCurl(endpoint: EndpointToml, options: CurlOptions): string | undefined {
  const { address, body, contentType = "application/json", secret = "shown" } = options;
  const credential = secret === "shown" ? shown(endpoint, body) : named(endpoint, body, secret.variable);
  if (credential === undefined) return undefined;
  const { query = "", header } = credential;
  const headers = [shellQuote(`Content-Type: ${contentType}`), ...(header === undefined ? [] : [header])];
  return [
    "curl",
    "-i",
    shellQuote(`http://${address}${endpoint.path}${query}`),
    ...headers.map((each) => `-H ${each}`),
    "--data-raw",
    shellQuote(body),
  ].join(" ");
}

/** What a command says to prove who sends. */
type ShownCredential = { query?: string; header?: string };

function shown(endpoint: EndpointToml, body: string): ShownCredential | undefined {
  const header = credentialHeader(endpoint, body);
  if (header !== undefined) return { header: shellQuote(`${header.name}: ${header.value}`) };
  if (endpoint.auth === "none") return {};
  if (endpoint.auth !== "token" || endpoint.token_query === undefined) return undefined;
  const { token_query: name, secret } = endpoint;
  return { query: `?${encodeURIComponent(name)}=${encodeURIComponent(first(secret))}` };
}

function named(
  endpoint: EndpointToml,
  body: string,
  variable: string | undefined,
): ShownCredential | undefined {
  const proof = proofOf(endpoint);
  if (proof.by !== "secret") return endpoint.auth === "token" ? undefined : shown(endpoint, body);
  if (variable === undefined || proof.encode !== undefined) return undefined;
  return { header: `${shellQuote(`${proof.header}: ${proof.before}`)}"$${variable}"` };
}

/** A command that signs and sends a sample as the endpoint's sender would, with the secret that the configuration names. */
export function readySend(path: string, configDir: string, program: string): string {
  return `${program} send ${shellQuote(path)} --config-dir ${shellQuote(configDir)}`;
}

type PayOptions = {
  body: string;
  /** It is shown, so only a devnet's will do. */
  payerKey: string;
  program?: string;
  /** Whether the job costs no more than `postern pay` pays without being told to. */
  isCheap?: boolean;
};

/** A command that a terminal takes as it stands and that buys the job. */
export function readyPay(jobUrl: string, options: PayOptions): string {
  const { body, payerKey, program = PROGRAM_OF_CLONE, isCheap = true } = options;
  const pay = `${program} pay ${shellQuote(jobUrl)} --body ${shellQuote(body)}`;
  return `POSTERN_PAYER_KEY=${payerKey} ${pay}${isCheap ? "" : ` --max ${DEVNET_BALANCE}`}`;
}

/** Tokens of each payer of a devnet. */
const DEVNET_BALANCE = 1_000_000;

type CredentialHeader = { name: string; value: string };

/** The credential header of a webhook with this body, made with the endpoint's first secret; undefined if it has none. */
export function credentialHeader(endpoint: EndpointToml, body: string): CredentialHeader | undefined {
  if (endpoint.auth === "hmac-sha256")
    return { name: "X-Signature-256", value: `sha256=${signature(endpoint.secret, body)}` };
  const proof = proofOf(endpoint);
  if (proof.by !== "secret") return undefined;
  return { name: proof.header, value: secretText(proof, first(secretsOf(endpoint))) };
}

function first([secret]: readonly Secret[]): string {
  return secret?.reveal() ?? "";
}

function signature([secret]: readonly Secret[], body: string): string {
  return secret === undefined ? "" : hmacSha256(secret, Buffer.from(body)).toString("hex");
}
