import type { EndpointToml } from "../config/webhooks-toml.ts";
import { hmacSha256 } from "../crypto/hmac.ts";
import type { Secret } from "../crypto/secret.ts";

export type CredentialHeader = { name: string; value: string };

/**
 * The header that lets a webhook with this body in at the endpoint, by its first secret; none is needed under `none`.
 * `shownAs` stands in the place of a secret that may not be shown; a signature is always the real one.
 */
export function credentialHeader(
  endpoint: EndpointToml,
  body: string,
  shownAs?: string,
): CredentialHeader | undefined {
  switch (endpoint.auth) {
    case "none":
      return undefined;
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
