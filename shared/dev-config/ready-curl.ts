import type { EndpointToml } from "../config/webhooks-toml.ts";
import { hmacSha256 } from "../crypto/hmac.ts";
import type { Secret } from "../crypto/secret.ts";

export type CurlOptions = {
  /** `host:port` of the gateway. */
  address: string;
  body: string;
  contentType?: string;
  /**
   * Whether the credential itself may be shown: only one that was made for this run. Otherwise the shell's $SECRET
   * stands in its place; a signature is shown always, since it holds for this body only.
   */
  showSecret: boolean;
};

/** A command that a terminal takes as it stands and the gateway answers with 202. */
export function readyCurl(endpoint: EndpointToml, options: CurlOptions): string {
  const { address, body, contentType = "application/json" } = options;
  const headers = [quoted(`Content-Type: ${contentType}`), ...credential(endpoint, options)];
  const flags = headers.map((header) => `-H ${header}`);
  return [
    "curl",
    "-i",
    quoted(`http://${address}${endpoint.path}`),
    ...flags,
    "--data-raw",
    quoted(body),
  ].join(" ");
}

function credential(endpoint: EndpointToml, { body, showSecret }: CurlOptions): string[] {
  const header = (name: string, [secret]: readonly Secret[], scheme = "") =>
    showSecret ? quoted(`${name}: ${scheme}${secret?.reveal()}`) : `"${name}: ${scheme}$SECRET"`;
  switch (endpoint.auth) {
    case "none":
      return [];
    case "bearer":
      return [header("Authorization", endpoint.secret, "Bearer ")];
    case "api-key":
      return [header(endpoint.api_key_header, endpoint.secret)];
    case "hmac-sha256":
      return [quoted(`X-Signature-256: sha256=${signature(endpoint.secret, body)}`)];
  }
}

function signature([secret]: readonly Secret[], body: string): string {
  return secret === undefined ? "" : hmacSha256(secret, Buffer.from(body)).toString("hex");
}

/** One word to a POSIX shell, whatever the text holds. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
