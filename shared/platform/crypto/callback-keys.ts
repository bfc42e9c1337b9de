import { createHmac, createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from "node:crypto";
import type { Secret } from "./secret.ts";

/*
 * Keys that sign callbacks. All are derived from `[callbacks] secret`, so that operators have only one secret to keep
 * and to replace. Only producers know it. A receiver that knows its own key cannot compute the key of another receiver.
 */

/** Returns the 32-byte HMAC key that signs the callbacks to the receiver at this exact URL. */
export function receiverKey(secret: Secret, url: string): Buffer {
  return derive(secret, url);
}

/** Returns the receiver's key in the notation of Standard Webhooks. */
export function receiverSecret(secret: Secret, url: string): string {
  return `whsec_${receiverKey(secret, url).toString("base64")}`;
}

/**
 * Returns the Ed25519 key that signs callbacks for all receivers. Anyone can verify its signatures with the public key.
 * It is derived from the text `ed25519`, which is not a URL, so no receiver's own key is the same.
 */
export function callbackSigningKey(secret: Secret): KeyObject {
  const der = Buffer.concat([PKCS8_OF_ED25519, derive(secret, "ed25519")]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

/** Returns the public key of a signing key: 32 bytes in base64url, as in a JWK. */
export function publicKeyOf(signingKey: KeyObject): string {
  return String(createPublicKey(signingKey).export({ format: "jwk" }).x);
}

/** Bytes before the 32 bytes of the key in PKCS #8 (RFC 8410). */
const PKCS8_OF_ED25519 = Buffer.from("302e020100300506032b657004220420", "hex");

function derive(secret: Secret, purpose: string): Buffer {
  const key = Buffer.from(secret.reveal().replace(/^whsec_/, ""), "base64");
  return createHmac("sha256", createSecretKey(key)).update(purpose).digest();
}
