import { keccak256, keccak256Hex } from "./keccak.ts";
import { addressWord, uintWord } from "./words.ts";

/** What signatures are bound to (EIP-712, definition of domainSeparator). */
export type Eip712Domain = { name: string; version: string; chainId: number; verifyingContract: string };

const DOMAIN_TYPE = hashOfText(
  "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
);

/** The domain separator of EIP-712, 32 bytes in hex without 0x: made once for each domain. */
export function domainSeparator({ name, version, chainId, verifyingContract }: Eip712Domain): string {
  const chain = uintWord(BigInt(chainId));
  return hashOfWords(
    DOMAIN_TYPE,
    hashOfText(name),
    hashOfText(version),
    chain,
    addressWord(verifyingContract),
  );
}

/** The 32 bytes that are signed for a struct: `words` are its type's hash and its members, 32 bytes each (EIP-712). */
export function typedDataDigest(separator: string, words: readonly string[]): Uint8Array {
  return keccak256(Buffer.from(`1901${separator}${hashOfWords(...words)}`, "hex"));
}

/** Keccak-256 of a text's UTF-8, in hex without 0x. */
export function hashOfText(text: string): string {
  return keccak256Hex(Buffer.from(text)).slice(2);
}

function hashOfWords(...words: readonly string[]): string {
  return keccak256Hex(Buffer.from(words.join(""), "hex")).slice(2);
}
