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
  const { proof } = endpoint;
  switch (proof.by) {
    case "nothing":
      return {};
    case "secret":
      return shownHeader(endpoint, body);
    case "schemes":
      return shownHeader(endpoint, body) ?? shownQuery(endpoint, proof.schemes);
  }
}

function shownHeader(endpoint: EndpointToml, body: string): ShownCredential | undefined {
  const header = credentialHeader(endpoint, body);
  return header && { header: shellQuote(`${header.name}: ${header.value}`) };
}

function named(
  endpoint: EndpointToml,
  body: string,
  variable: string | undefined,
): ShownCredential | undefined {
  const { proof } = endpoint;
  if (!showsSecret(proof)) return shown(endpoint, body);
  if (proof.by !== "secret" || variable === undefined || proof.encode !== undefined) return undefined;
  return { header: `${shellQuote(`${proof.header}: ${proof.before}`)}"$${variable}"` };
}

/** The query that holds the secret itself, if that is all that a request needs. */
function shownQuery(
  endpoint: EndpointToml,
  [scheme, ...more]: readonly Scheme[],
): ShownCredential | undefined {
  if (scheme?.algorithm !== "equal" || scheme.query === undefined || more.length > 0) return undefined;
  return { query: `?${encodeURIComponent(scheme.query)}=${encodeURIComponent(firstSecret(endpoint))}` };
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
  /** In whole tokens, rounded up. */
  price?: bigint;
};

/** A command that a terminal takes as it stands and that buys the job. */
export function readyPay(jobUrl: string, options: PayOptions): string {
  const { body, payerKey, program = PROGRAM_OF_CLONE, price = 0n } = options;
  const pay = `${program} pay ${shellQuote(jobUrl)} --body ${shellQuote(body)}`;
  return `POSTERN_PAYER_KEY=${payerKey} ${pay}${price > MAX_UNASKED ? ` --max ${price}` : ""}`;
}

/** Tokens that `postern pay` pays without being told to. */
const MAX_UNASKED = 1n;

type CredentialHeader = { name: string; value: string };

/**
 * The credential header of a webhook with this body, made with the endpoint's first secret. Undefined if it has none, or one that needs
 * more than the body. A preset may need other headers too.
 */
export function credentialHeader(endpoint: EndpointToml, body: string): CredentialHeader | undefined {
  const { proof } = endpoint;
  switch (proof.by) {
    case "nothing":
      return undefined;
    case "secret":
      return { name: proof.header, value: secretText(proof, firstSecret(endpoint)) };
    case "schemes":
      return signatureHeader(endpoint, proof.schemes, body);
  }
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
