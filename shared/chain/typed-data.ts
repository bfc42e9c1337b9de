import { addressWord, bytes32Word, keccak256Hex, uintWord } from "./encoding.ts";
import { keccak256 } from "./keccak.ts";

/** The domain that signatures are bound to (EIP-712, definition of domainSeparator). */
export type Eip712Domain = { name: string; version: string; chainId: number; verifyingContract: string };

const DOMAIN_TYPE = hashOfText(
  "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
);

/** The domain separator of EIP-712, 32 bytes in hex without 0x. Compute it once for each domain. */
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

/** The 32 bytes that are signed for a struct. `words` are the struct's type hash and its members, 32 bytes each (EIP-712). */
export function typedDataDigest(separator: string, words: readonly string[]): Uint8Array {
  return keccak256(Buffer.from(`1901${separator}${hashOfWords(...words)}`, "hex"));
}

/** Keccak-256 of a text's UTF-8, in hex without 0x. */
export function hashOfText(text: string): string {
  return keccak256Hex(Buffer.from(text)).slice(2);
}

/** Keccak-256 of 32-byte words in hex without 0x, such as a struct's type hash and its members (EIP-712, hashStruct). */
export function hashOfWords(...words: readonly string[]): string {
  return keccak256Hex(Buffer.from(words.join(""), "hex")).slice(2);
}

/**
 * The fields that a payer signs to authorize one transfer, in the terms of EIP-3009. Addresses and nonce are 0x hex, times are unix
 * seconds.
 */
export type Authorization = {
  from: `0x${string}`;
  to: `0x${string}`;
  value: bigint;
  validAfter: bigint;
  validBefore: bigint;
  nonce: `0x${string}`;
};

const TRANSFER_TYPE = hashOfText(
  "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
);

/** The 32 bytes that a payer signs to authorize a transfer (EIP-3009, EIP-712). */
export function authorizationDigest(separator: string, authorization: Authorization): Uint8Array {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  return typedDataDigest(separator, [
    TRANSFER_TYPE,
    addressWord(from),
    addressWord(to),
    uintWord(value),
    uintWord(validAfter),
    uintWord(validBefore),
    bytes32Word(nonce),
  ]);
}
