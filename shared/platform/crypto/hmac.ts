import { createHmac, timingSafeEqual } from "node:crypto";
import type { Secret } from "./secret.ts";

/**
 * Returns the HMAC-SHA256 (RFC 2104) of these bytes. To verify a signature, pass the bytes as received. JSON that was
 * parsed and serialized again may differ from the bytes that the sender signed.
 */
export function hmacSha256(secret: Secret, bytes: Uint8Array): Buffer {
  return createHmac("sha256", secret.reveal()).update(bytes).digest();
}

/**
 * Returns whether one of the secrets made this signature over these bytes. It tries all of them, even after a match.
 */
export function isSignedByAny(secrets: readonly Secret[], signature: Buffer, bytes: Uint8Array): boolean {
  let matches = false;
  for (const secret of secrets) {
    if (timingSafeEqual(hmacSha256(secret, bytes), signature)) matches = true;
  }
  return matches;
}
