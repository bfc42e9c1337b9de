import { createHash, randomBytes } from "node:crypto";

export const CALL_ID = /^c_[0-9a-f]{32}$/;

/**
 * The id of a call with evidence: the same evidence is the same call on every replica, for ever. The first 128 bits of
 * SHA-256 over the parts, each preceded by its length in UTF-8 bytes and a colon, so that ("ab","c") differs from ("a","bc").
 */
export function callIdFrom(...evidence: readonly string[]): string {
  const hash = createHash("sha256");
  for (const part of evidence) hash.update(`${Buffer.byteLength(part)}:${part}`);
  return `c_${hash.digest("hex").slice(0, 32)}`;
}

export function randomCallId(): string {
  return `c_${randomBytes(16).toString("hex")}`;
}
