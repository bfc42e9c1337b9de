import { keccak_256 } from "@noble/hashes/sha3.js";
import { toHex } from "./hex.ts";

/** Keccak-256, as Ethereum uses it: 32 bytes. */
export function keccak256(bytes: Uint8Array): Uint8Array {
  return keccak_256(bytes);
}

/** Keccak-256 as 0x and 64 lower-case hex digits. */
export function keccak256Hex(bytes: Uint8Array): `0x${string}` {
  return toHex(keccak_256(bytes));
}
