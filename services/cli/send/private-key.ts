import { createPublicKey, type KeyObject } from "node:crypto";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import type { HttpSigned, Jwt } from "../../../shared/webhook-auth/auth-modes.ts";
import { keysFor } from "../../../shared/webhook-auth/key.ts";
import { type AlgorithmName, HTTP_ALGORITHMS } from "../../../shared/webhook-auth/keys/algorithms.ts";
import {
  isFor,
  isKeySetUrl,
  type NamedKey,
  parseKeySet,
  parseKeys,
  parseSigningKey,
} from "../../../shared/webhook-auth/keys/jwk.ts";
import { parsePrivateKey, publicHalf } from "../../../shared/webhook-auth/private-key.ts";
import type { Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";

/**
 * Returns the private key from `--key`, with which a sample webhook is signed. Its `kid` is that of the matching public
 * key in the endpoint's configuration. Throws if it matches none of these public keys.
 */
export function signingKeyFor(
  signed: Scheme | Jwt | HttpSigned,
  key: Secret | undefined,
  secrets: readonly Secret[],
): NamedKey {
  if (!("by" in signed)) return { key: keyForScheme(signed, key, secrets) };
  const algorithms = algorithmsOf(signed);
  if (key === undefined) throw missingKeyError(algorithms.join(" or "), algorithms[0]);
  const parsed = parseSigningKey(key.reveal());
  if (parsed === undefined) throw new Error("--key must be a private key: PEM, PKCS #8 in base64, or a JWK");
  const isUsable = (each: NamedKey) => algorithms.some((name) => isFor(each, name));
  if (!isUsable(parsed))
    throw new Error(`--key fits none of the endpoint's algorithms: ${algorithms.join(", ")}`);
  const configured = configuredKeys(signed, secrets);
  if (configured === undefined) return requireKid(parsed, signed);
  const half = createPublicKey(parsed.key);
  const known = configured.find((each) => each.key.equals(half) && isUsable(each));
  if (known === undefined) throw wrongKeyError(signed.by === "jwt" ? jwkOf(half) : pemOf(half));
  return { ...known, key: parsed.key };
}

function algorithmsOf(signed: Jwt | HttpSigned): readonly AlgorithmName[] {
  return signed.by === "jwt" ? signed.algorithms : [HTTP_ALGORITHMS[signed.signature.algorithm]];
}

/**
 * Returns the public keys in the endpoint's configuration. Undefined if the configuration has only a URL of keys, which
 * this command does not fetch.
 */
function configuredKeys(
  signed: Jwt | HttpSigned,
  secrets: readonly Secret[],
): readonly NamedKey[] | undefined {
  if (signed.by === "jwt") {
    const jwks = signed.jwks.reveal();
    return isKeySetUrl(jwks) ? undefined : parseKeySet(jwks);
  }
  const { algorithm, directory } = signed.signature;
  if (directory !== undefined) return undefined;
  return secrets.flatMap((secret) => parseKeys(secret.reveal(), algorithm));
}

/**
 * Returns the key. Throws if the key has no `kid` but needs one. A gateway finds a key in the key set of a JWT's issuer
 * only by its `kid`.
 */
function requireKid(key: NamedKey, signed: Jwt | HttpSigned): NamedKey {
  if (signed.by !== "jwt" || key.kid !== undefined) return key;
  throw new Error(
    `--key must be a JWK with a kid: the endpoint fetches its keys from the URL in jwks, where the gateway finds a key by its kid`,
  );
}

function keyForScheme(
  { algorithm, secret_format }: Scheme,
  key: Secret | undefined,
  secrets: readonly Secret[],
): KeyObject {
  if (key === undefined) throw missingKeyError(algorithm, algorithm === "ed25519" ? "EdDSA" : "ES256");
  const parsed = parsePrivateKey(key.reveal(), algorithm);
  if (parsed === undefined)
    throw new Error(
      `--key must be a private key for ${algorithm}: PEM, PKCS #8 in base64, whsk_… or hex digits`,
    );
  const half = publicHalf(parsed, secret_format);
  if (!secrets.some((secret) => isSameKey(secret, half, algorithm, secret_format))) throw wrongKeyError(half);
  return parsed;
}

const HOW_TO_MAKE: Partial<Record<AlgorithmName, string>> = {
  EdDSA: "-algorithm ed25519",
  ES256: "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
  ES384: "-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
  ES512: "-algorithm EC -pkeyopt ec_paramgen_curve:P-521",
};
const HOW_TO_MAKE_RSA = "-algorithm RSA -pkeyopt rsa_keygen_bits:3072";

function missingKeyError(algorithm: string, name: AlgorithmName = "RS256"): Error {
  const make = `openssl genpkey ${HOW_TO_MAKE[name] ?? HOW_TO_MAKE_RSA} -out key.pem`;
  return new Error(
    `this sender signs with a private key (${algorithm}) that only the sender has. To test the endpoint, create your own key (${make}) and use --key file:/path/key.pem. If its public half is not configured, this command prints it`,
  );
}

function wrongKeyError(half: string): Error {
  return new Error(
    `--key does not match a key of the endpoint, so the gateway would answer 401. The public half of the key is ${half}`,
  );
}

function jwkOf(key: KeyObject): string {
  return JSON.stringify({ ...key.export({ format: "jwk" }), kid: "test" });
}

function pemOf(key: KeyObject): string {
  return `\n${key.export({ format: "pem", type: "spki" })}`;
}

function isSameKey(
  secret: Secret,
  half: string,
  algorithm: Scheme["algorithm"],
  format: Scheme["secret_format"],
) {
  const scheme: Scheme = { algorithm, ...(format !== undefined && { secret_format: format }) };
  const [ofSecret, ofHalf] = [secret, { reveal: () => half } as Secret].map(
    (each) => keysFor([scheme], [each])[0]?.[0],
  );
  return ofHalf !== undefined && ofSecret?.equals(ofHalf) === true;
}
