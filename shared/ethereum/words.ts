/** A 32-byte word of the contract ABI, in hex without 0x: an unsigned integer. */
export function uintWord(value: bigint): string {
  return value.toString(16).padStart(64, "0");
}

/** A 32-byte word of the contract ABI, in hex without 0x: an address. */
export function addressWord(address: string): string {
  return address.slice(2).toLowerCase().padStart(64, "0");
}

/** A 32-byte word of the contract ABI, in hex without 0x: 32 bytes given as 0x and 64 hex digits. */
export function bytes32Word(hex: string): string {
  return hex.slice(2).toLowerCase();
}
