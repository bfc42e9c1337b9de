import { keccak256 } from "./keccak.ts";

/** The 32 bytes that `personal_sign` signs for a text (EIP-191, version 0x45). */
export function personalMessageDigest(text: string): Uint8Array {
  const message = Buffer.from(text);
  return keccak256(Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${message.length}`), message]));
}
