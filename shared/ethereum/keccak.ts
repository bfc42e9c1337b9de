import { keccak256 as hash } from "viem/utils";

/** Keccak-256, as Ethereum uses it: 32 bytes. */
export function keccak256(bytes: Uint8Array): Uint8Array {
  return hash(bytes, "bytes");
}

/** Keccak-256 as 0x and 64 lower-case hex digits. */
export function keccak256Hex(bytes: Uint8Array): `0x${string}` {
  return hash(bytes);
}
