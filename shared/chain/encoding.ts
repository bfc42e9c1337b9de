import { keccak256 } from "./keccak.ts";

/** 0x and hex digits. */
export type Hex = `0x${string}`;

/** The bytes as 0x and lower-case hex digits. */
export function toHex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes).toString("hex")}`;
}

export const UINT64_MAX = 2n ** 64n - 1n;
export const UINT256_MAX = 2n ** 256n - 1n;

/** Encodes an unsigned integer as a 32-byte word of the contract ABI, in hex without 0x. */
export function uintWord(value: bigint): string {
  return value.toString(16).padStart(64, "0");
}

/** Encodes an address as a 32-byte word of the contract ABI, in hex without 0x. */
export function addressWord(address: string): string {
  return address.slice(2).toLowerCase().padStart(64, "0");
}

/** Encodes 32 bytes, given as 0x and 64 hex digits, as a word of the contract ABI, in hex without 0x. */
export function bytes32Word(hex: string): string {
  return hex.slice(2).toLowerCase();
}

/** Encodes bytes of any length: their length, then the bytes padded to whole words (contract ABI). */
export function bytesWords(bytes: Hex): string {
  const digits = bytes.slice(2);
  const padded = digits.padEnd(64 * Math.ceil(digits.length / 64), "0");
  return `${uintWord(BigInt(digits.length / 2))}${padded}`;
}

/** Whether the text is `eip155:N` (CAIP-2, namespace eip155). N is decimal, and JavaScript can hold it exactly. */
export function isEvmNetwork(text: string): text is `eip155:${number}` {
  return /^eip155:[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(chainIdOf(text));
}

/** N of a network that is known to be `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}

/** Keccak-256 as 0x and 64 lower-case hex digits. */
export function keccak256Hex(bytes: Uint8Array): Hex {
  return toHex(keccak256(bytes));
}

/** The first four bytes of a function's call data, from its signature, such as "decimals()". */
export function selectorOf(signature: string): Hex {
  return keccak256Hex(Buffer.from(signature)).slice(0, 10) as Hex;
}
