import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";

/** Private key with which requests to Coinbase's CDP API are signed, and its JWS algorithm (RFC 7518, RFC 8037). */
export type CdpKey = { alg: "EdDSA" | "ES256"; key: KeyObject };

/**
 * Reads the secret of a CDP API key. Throws an error whose message says which forms are accepted. The message contains
 * no part of the key.
 */
export function readCdpKey(secret: string): CdpKey {
  const text = secret.trim();
  return text.startsWith("-----") ? readPem(text.replaceAll("\\n", "\n")) : readSeed(text);
}

/** 64 bytes in base64: the seed of an Ed25519 key, and its public key. */
const ED25519 = /^[A-Za-z0-9+/]{86}==$/;
/** Bytes before the 32-byte seed of an Ed25519 key in PKCS #8 (RFC 8410, section 7). */
const PKCS8_ED25519 = Buffer.from("302e020100300506032b657004220420", "hex");

function readSeed(text: string): CdpKey {
  const bytes = Buffer.from(text, "base64");
  if (!ED25519.test(text)) throw new Error(NEITHER);
  const [seed, publicKey] = [bytes.subarray(0, 32), bytes.subarray(32)];
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_ED25519, seed]), format: "der", type: "pkcs8" });
  const { x } = createPublicKey(key).export({ format: "jwk" });
  if (x !== publicKey.toString("base64url"))
    throw new Error(
      "is an Ed25519 key whose public half does not match its seed: copy the whole key from CDP again",
    );
  return { alg: "EdDSA", key };
}

function readPem(text: string): CdpKey {
  const key = privateKeyIn(text);
  if (key?.asymmetricKeyType !== "ec" || key.asymmetricKeyDetails?.namedCurve !== "prime256v1")
    throw new Error(NEITHER);
  return { alg: "ES256", key };
}

const NEITHER =
  "must be the secret of a CDP API key: an Ed25519 key (64 bytes in base64) or an ES256 private key (P-256, PEM)";

function privateKeyIn(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
