import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import type { Algorithm, SecretFormat } from "./signature-scheme.ts";

/*
 * Private keys of senders, for tests. If a sender signs with a key pair, its endpoint has only the public key, as its
 * secret (key.ts) or in a key set. To send test deliveries to such an endpoint, an operator creates a key pair.
 */

/** Fixed beginning of a PKCS #8 key of Ed25519 (RFC 8410, section 7). */
const ED25519_PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const SEED_BYTES = 32;
const PUBLIC_KEY_BYTES = 32;

/**
 * Parses a private key of this algorithm, in the forms of `toPrivateKey`. Undefined if the text is a key of another
 * algorithm, or not a key.
 */
export function parsePrivateKey(text: string, algorithm: Algorithm): KeyObject | undefined {
  const key = toPrivateKey(text);
  const curve = key?.asymmetricKeyDetails?.namedCurve;
  const fits = algorithm === "ed25519" ? key?.asymmetricKeyType === "ed25519" : curve === "prime256v1";
  return fits ? key : undefined;
}

/**
 * Parses a private key: PEM, PKCS #8 in base64, JWK, `whsk_` and base64, or the 64 hex digits of an Ed25519 seed.
 * Undefined if the text is not a key.
 */
export function toPrivateKey(text: string): KeyObject | undefined {
  try {
    return toKey(text.trim());
  } catch {
    return undefined;
  }
}

function toKey(text: string): KeyObject {
  if (text.startsWith("{")) return createPrivateKey({ key: JSON.parse(text) as JsonWebKey, format: "jwk" });
  if (text.startsWith("-----")) return createPrivateKey(text);
  if (/^[0-9a-fA-F]{64}$/.test(text)) return fromSeed(Buffer.from(text, "hex"));
  if (text.startsWith("whsk_")) return fromSeed(Buffer.from(text.slice("whsk_".length), "base64"));
  return createPrivateKey({ key: Buffer.from(text, "base64"), format: "der", type: "pkcs8" });
}

/** Makes an Ed25519 key from its 32-byte seed. The public key may follow the seed in `bytes`, and is ignored. */
function fromSeed(bytes: Buffer): KeyObject {
  const key = Buffer.concat([ED25519_PKCS8, bytes.subarray(0, SEED_BYTES)]);
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}

/** Returns the public key in the form of an endpoint's `secret`. */
export function publicHalf(key: KeyObject, format: SecretFormat | undefined): string {
  const spki = createPublicKey(key).export({ format: "der", type: "spki" });
  const last = spki.subarray(-PUBLIC_KEY_BYTES);
  if (format === "ed25519-hex") return last.toString("hex");
  return format === "ed25519-whpk" ? `whpk_${last.toString("base64")}` : spki.toString("base64");
}
