import type { EndpointToml } from "../config/endpoint-toml.ts";
import { PROGRAM_OF_CLONE } from "../platform/lifecycle/environment.ts";
import { shellQuote } from "../platform/text/shell-quote.ts";
import { secretText, showsSecret } from "../webhook-auth/auth-modes.ts";
import { keysFor } from "../webhook-auth/key.ts";
import { encodeAs } from "../webhook-auth/sent-signature.ts";
import type { Scheme } from "../webhook-auth/signature-scheme.ts";
import { isHmac, macOf } from "../webhook-auth/verifier.ts";

type CurlOptions = {
  /** `host:port` of the gateway. */
  address: string;
  body: string;
  contentType?: string;
  /**
   * How the command contains the endpoint's secret. Use "shown" only for a secret that was made for this run, because
   * the command then shows it. For any other secret, the command refers to the environment variable that holds it.
   */
  secret?: "shown" | { variable: string | undefined };
};

/**
 * Returns a curl command that the gateway accepts, ready to paste into a terminal. A signature is always shown, because
 * it is valid for this body only. Returns undefined if this function cannot make the credential. That is so if the sender
 * signs with a private key or by a scheme of its own, or if the secret is a field of the body. Also returns undefined if the secret
 * must not be shown, and no variable holds it in the form that the request needs.
 */
export function readyCurl(endpoint: EndpointToml, options: CurlOptions): string | undefined {
  const { address, body, contentType = "application/json", secret = "shown" } = options;
  const credential =
    secret === "shown"
      ? withShownSecret(endpoint, body)
      : withSecretVariable(endpoint, body, secret.variable);
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

/** Part of a command that authenticates the sender. */
type ShownCredential = { query?: string; header?: string };

function withShownSecret(endpoint: EndpointToml, body: string): ShownCredential | undefined {
  const { proof } = endpoint;
  if (proof.by === "nothing") return {};
  if (proof.by === "secret") return shownHeader(endpoint, body);
  if (proof.by === "schemes") return shownHeader(endpoint, body) ?? shownQuery(endpoint, proof.schemes);
  return undefined;
}

function shownHeader(endpoint: EndpointToml, body: string): ShownCredential | undefined {
  const header = credentialHeader(endpoint, body);
  return header && { header: shellQuote(`${header.name}: ${header.value}`) };
}

function withSecretVariable(
  endpoint: EndpointToml,
  body: string,
  variable: string | undefined,
): ShownCredential | undefined {
  const { proof } = endpoint;
  if (!showsSecret(proof)) return withShownSecret(endpoint, body);
  if (proof.by !== "secret" || variable === undefined || proof.encode !== undefined) return undefined;
  return { header: `${shellQuote(`${proof.header}: ${proof.before}`)}"$${variable}"` };
}

/** Returns the query parameter that holds the secret itself, if the request needs no other credential. */
function shownQuery(
  endpoint: EndpointToml,
  [scheme, ...more]: readonly Scheme[],
): ShownCredential | undefined {
  if (scheme?.algorithm !== "equal" || scheme.query === undefined || more.length > 0) return undefined;
  return { query: `?${encodeURIComponent(scheme.query)}=${encodeURIComponent(firstSecret(endpoint))}` };
}

/**
 * Returns a command that signs a sample webhook as the endpoint's sender would, and sends it to the gateway. It reads
 * the secret from the configuration.
 */
export function readySend(path: string, configDir: string, program: string): string {
  return `${program} send ${shellQuote(path)} --config-dir ${shellQuote(configDir)}`;
}

type PayOptions = {
  body: string;
  /** Private key of the payer. The command shows it, so use only a key of a devnet. */
  payerKey: string;
  program?: string;
  /** Price in whole tokens, rounded up. */
  price?: bigint;
};

/** Returns a command that buys the job, ready to paste into a terminal. */
export function readyPay(jobUrl: string, options: PayOptions): string {
  const { body, payerKey, program = PROGRAM_OF_CLONE, price = 0n } = options;
  const pay = `${program} pay ${shellQuote(jobUrl)} --body ${shellQuote(body)}`;
  return `POSTERN_PAYER_KEY=${payerKey} ${pay}${price > MAX_WITHOUT_OPTION ? ` --max ${price}` : ""}`;
}

/** Highest price, in tokens, that `postern pay` pays without `--max`. */
const MAX_WITHOUT_OPTION = 1n;

type CredentialHeader = { name: string; value: string };

/**
 * Makes the header that authenticates a webhook with this body, from the endpoint's first secret. Returns undefined if
 * the endpoint has no such header, or if the header depends on more than the body and the secret. Some presets need
 * further headers.
 */
export function credentialHeader(endpoint: EndpointToml, body: string): CredentialHeader | undefined {
  const { proof } = endpoint;
  if (proof.by === "secret") return { name: proof.header, value: secretText(proof, firstSecret(endpoint)) };
  return proof.by === "schemes" ? signatureHeader(endpoint, proof.schemes, body) : undefined;
}

function signatureHeader(
  { preset, secret }: EndpointToml,
  schemes: readonly Scheme[],
  body: string,
): CredentialHeader | undefined {
  const [scheme, ...more] = schemes;
  const [key] = keysFor(schemes, secret)[0] ?? [];
  const [name] = [scheme?.header ?? []].flat();
  if (preset !== undefined || scheme === undefined || key === undefined || name === undefined)
    return undefined;
  if (more.length > 0 || !signsBodyAlone(scheme)) return undefined;
  const mac = macOf(scheme.algorithm, key, Buffer.from(body));
  return { name, value: (scheme.prefix ?? "") + encodeAs(mac, scheme.encoding) };
}

function signsBodyAlone({ algorithm, signed = "{body}", list, timestamp, require }: Scheme): boolean {
  return isHmac(algorithm) && signed === "{body}" && (list ?? timestamp ?? require) === undefined;
}

function firstSecret({ secret: [secret] }: EndpointToml): string {
  return secret?.reveal() ?? "";
}
