import { createHash, hash, timingSafeEqual } from "node:crypto";

/**
 * Returns whether two sequences of bytes are equal. The time that it takes shows an attacker neither where the two
 * differ nor how long `expected` is.
 */
export function sameBytes(actual: Uint8Array, expected: Uint8Array): boolean {
  return timingSafeEqual(sha256(actual), sha256(expected));
}

export function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}

export function sha256Hex(bytes: Uint8Array): string {
  return hash("sha256", bytes, "hex");
}
