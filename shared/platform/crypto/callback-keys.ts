import { createHmac, createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from "node:crypto";
import type { Secret } from "./secret.ts";

/*
 * The keys that sign callbacks. All are derived from `[callbacks] secret`, which only producers know, so there is one secret to keep and to
 * rotate. A receiver that knows its own key can compute no other one.
 */

/** The HMAC key of the receiver at this exact URL, 32 bytes. */
export function receiverKey(secret: Secret, url: string): Buffer {
  return derive(secret, url);
}

/** The same key as Standard Webhooks writes it. */
export function receiverSecret(secret: Secret, url: string): string {
  return `whsec_${receiverKey(secret, url).toString("base64")}`;
}

/** The Ed25519 key whose signatures anybody can verify. The text that it is derived by is no URL. */
export function callbackSigningKey(secret: Secret): KeyObject {
  const der = Buffer.concat([PKCS8_OF_ED25519, derive(secret, "ed25519")]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

/** The public key of a signing key: 32 bytes in base64url, as a JWK has them. */
export function publicKeyOf(signingKey: KeyObject): string {
  return String(createPublicKey(signingKey).export({ format: "jwk" }).x);
}

/** What precedes the 32 bytes of the key (RFC 8410). */
const PKCS8_OF_ED25519 = Buffer.from("302e020100300506032b657004220420", "hex");

function derive(secret: Secret, purpose: string): Buffer {
  const key = Buffer.from(secret.reveal().replace(/^whsec_/, ""), "base64");
  return createHmac("sha256", createSecretKey(key)).update(purpose).digest();
}
