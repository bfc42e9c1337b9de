import type { Address } from "./address.ts";
import { keccak256Hex } from "./encoding.ts";

/** Formats an address by EIP-55: the case of its letters is a checksum. */
export function checksummed(address: Address): Address {
  const digits = address.slice(2).toLowerCase();
  const hash = keccak256Hex(Buffer.from(digits)).slice(2);
  const raised = [...digits].map((digit, i) =>
    Number.parseInt(hash.charAt(i), 16) >= 8 ? digit.toUpperCase() : digit,
  );
  return `0x${raised.join("")}`;
}

/** Whether the case of the letters is that of EIP-55. An address with letters of only one case has no checksum, and passes. */
export function hasRightChecksum(address: Address): boolean {
  const digits = address.slice(2);
  const oneCase = digits === digits.toLowerCase() || digits === digits.toUpperCase();
  return oneCase || address === checksummed(address);
}
