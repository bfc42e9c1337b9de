import { createHmac, timingSafeEqual } from "node:crypto";
import type { Secret } from "./secret.ts";

const SHA256_HEX = /^(?:sha256=)?([0-9a-f]{64})$/i;

/** HMAC-SHA256 (RFC 2104) of the bytes as received: re-serialised JSON would differ from what the sender signed. */
export function hmacSha256(secret: Secret, bytes: Uint8Array): Buffer {
  return createHmac("sha256", secret.bytes()).update(bytes).digest();
}

/**
 * The 32 bytes of a signature header: 64 hex digits of any case, with or without `sha256=` before them. The form is checked
 * first, because `Buffer.from(text, "hex")` ignores everything after the first bad digit.
 */
export function parseHmacHeader(text: string): Buffer | undefined {
  const hex = text.startsWith("sha256=") || text.length === 64 ? SHA256_HEX.exec(text)?.[1] : undefined;
  return hex === undefined ? undefined : Buffer.from(hex, "hex");
}

/** Whether any of the secrets made this signature over these bytes. All are tried, also after a match. */
export function isSignedByAny(secrets: readonly Secret[], signature: Buffer, bytes: Uint8Array): boolean {
  let matches = false;
  for (const secret of secrets) {
    if (timingSafeEqual(hmacSha256(secret, bytes), signature)) matches = true;
  }
  return matches;
}
