import { createHmac, createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from "node:crypto";
import type { Secret } from "./secret.ts";

/*
 * Keys that sign callbacks. All are derived from `[callbacks] secret`, which only producers know, so that operators
 * keep and rotate one secret. A receiver that knows its own key cannot compute the key of another receiver.
 */

/** Returns the HMAC key of the receiver at this exact URL, 32 bytes. */
export function receiverKey(secret: Secret, url: string): Buffer {
  return derive(secret, url);
}

/** Returns the receiver's key in the notation of Standard Webhooks. */
export function receiverSecret(secret: Secret, url: string): string {
  return `whsec_${receiverKey(secret, url).toString("base64")}`;
}

/**
 * Returns the Ed25519 key whose signatures anyone can verify. It is derived from a text that is not a URL, so no
 * receiver has the same key.
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
