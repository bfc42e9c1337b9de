import {
  constants,
  createHmac,
  type KeyObject,
  sign as signWith,
  timingSafeEqual,
  verify as verifyWith,
} from "node:crypto";

/*
 * Algorithms of signed tokens and HTTP Message Signatures. The endpoint's configuration names the accepted ones, and no
 * request can choose another.
 */

type Algorithm = {
  readonly type: "rsa" | "ec" | "ed25519" | "secret";
  /** Node's name of the curve. */
  readonly curve?: string;
  /** Undefined if the algorithm includes its hash. */
  readonly hash?: string;
  readonly isPss?: true;
};

/** Algorithms by their JOSE names (RFC 7518, RFC 8037). */
const ALGORITHMS = {
  RS256: { type: "rsa", hash: "sha256" },
  RS384: { type: "rsa", hash: "sha384" },
  RS512: { type: "rsa", hash: "sha512" },
  PS256: { type: "rsa", hash: "sha256", isPss: true },
  PS384: { type: "rsa", hash: "sha384", isPss: true },
  PS512: { type: "rsa", hash: "sha512", isPss: true },
  ES256: { type: "ec", hash: "sha256", curve: "prime256v1" },
  ES384: { type: "ec", hash: "sha384", curve: "secp384r1" },
  ES512: { type: "ec", hash: "sha512", curve: "secp521r1" },
  EdDSA: { type: "ed25519" },
  HS256: { type: "secret", hash: "sha256" },
} as const satisfies Readonly<Record<string, Algorithm>>;

export type AlgorithmName = keyof typeof ALGORITHMS;

/**
 * Algorithms of tokens that an endpoint can accept. Algorithms with a shared key are excluded, so that only the issuer
 * can sign.
 */
export const TOKEN_ALGORITHMS = (Object.keys(ALGORITHMS) as AlgorithmName[]).filter(hasKeyPair);

/** Algorithms by their names in RFC 9421, section 3.3. */
export const HTTP_ALGORITHMS = {
  ed25519: "EdDSA",
  "ecdsa-p256-sha256": "ES256",
  "rsa-pss-sha512": "PS512",
  "hmac-sha256": "HS256",
} as const satisfies Readonly<Record<string, AlgorithmName>>;
export type HttpAlgorithm = keyof typeof HTTP_ALGORITHMS;

/**
 * Limits on RSA keys. Checks with a longer key would be too slow, because any client can cause a check. The minimum is
 * that of RFC 7518, section 3.3.
 */
const RSA_BITS = { min: 2048, max: 8192 } as const;

export function hasKeyPair(name: AlgorithmName): boolean {
  return ALGORITHMS[name].type !== "secret";
}

/** Returns whether a key can sign or verify with this algorithm. */
export function fits(key: KeyObject, name: AlgorithmName): boolean {
  const { type, curve, isPss }: Algorithm = ALGORITHMS[name];
  const { asymmetricKeyType = key.type, asymmetricKeyDetails = {} } = key;
  const { modulusLength, namedCurve, hashAlgorithm } = asymmetricKeyDetails;
  if (type === "rsa" && (!modulusLength || modulusLength < RSA_BITS.min || modulusLength > RSA_BITS.max))
    return false;
  // An RSA-PSS key may be restricted to one hash and a minimum salt length. Such a key is excluded, because Node throws
  // an error for a signature that does not fit.
  const isForPss = asymmetricKeyType === "rsa-pss" && hashAlgorithm === undefined;
  const isType = asymmetricKeyType === type || (isPss === true && isForPss);
  return isType && namedCurve === curve;
}

/** Signs a message. An ECDSA signature is its two numbers in sequence, not DER. */
export function sign(name: AlgorithmName, key: KeyObject, message: Buffer): Buffer {
  if (!hasKeyPair(name)) return macOf(key, message);
  return signWith(hashOf(name), message, optionsOf(name, key, constants.RSA_PSS_SALTLEN_DIGEST));
}

/**
 * Verifies a signature. The salt of an RSA-PSS signature may have any length: npm's http-message-signatures uses the
 * longest possible salt, which is not weaker.
 */
export function verify(name: AlgorithmName, key: KeyObject, message: Buffer, signature: Buffer): boolean {
  if (hasKeyPair(name))
    return verifyWith(hashOf(name), message, optionsOf(name, key, constants.RSA_PSS_SALTLEN_AUTO), signature);
  const mac = macOf(key, message);
  return signature.length === mac.length && timingSafeEqual(signature, mac);
}

function hashOf(name: AlgorithmName): string | null {
  return (ALGORITHMS[name] as Algorithm).hash ?? null;
}

function optionsOf(name: AlgorithmName, key: KeyObject, saltLength: number) {
  const { isPss }: Algorithm = ALGORITHMS[name];
  return {
    key,
    dsaEncoding: "ieee-p1363" as const,
    ...(isPss && { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength }),
  };
}

function macOf(key: KeyObject, message: Buffer): Buffer {
  return createHmac("sha256", key).update(message).digest();
}
