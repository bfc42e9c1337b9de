import type { Jwt } from "../auth-modes.ts";
import { sign } from "../keys/algorithms.ts";
import { isFor, type NamedKey } from "../keys/jwk.ts";

const TOKEN_SECS = 300;

/**
 * Signs a token that the endpoint accepts, with the required claims (RFC 7519). It uses the first of the endpoint's
 * algorithms that fits the key.
 */
export function signJwt(
  { issuers, audience, claims, algorithms }: Pick<Jwt, "issuers" | "audience" | "claims" | "algorithms">,
  signingKey: NamedKey,
  at: Date,
): string {
  const { key, kid } = signingKey;
  const alg = algorithms.find((name) => isFor(signingKey, name));
  if (alg === undefined) throw new TypeError("the key is for none of the algorithms");
  const iat = Math.floor(at.getTime() / 1000);
  const header = { alg, typ: "JWT", ...(kid !== undefined && { kid }) };
  const payload = { ...claims, iss: issuers[0], aud: audience, iat, exp: iat + TOKEN_SECS };
  const text = [header, payload].map(encoded).join(".");
  return `${text}.${sign(alg, key, Buffer.from(text)).toString("base64url")}`;
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
