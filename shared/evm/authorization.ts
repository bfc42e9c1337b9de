import { keccak256, keccak256Hex } from "./keccak.ts";
import { addressWord, bytes32Word, uintWord } from "./words.ts";

/** An EIP-3009 authorization: who may be charged what, when, once. Addresses and nonce are 0x hex; times unix seconds. */
export type Authorization = {
  from: `0x${string}`;
  to: `0x${string}`;
  value: bigint;
  validAfter: bigint;
  validBefore: bigint;
  nonce: `0x${string}`;
};

/** What a token's signatures are bound to (EIP-712, definition of domainSeparator). */
export type TokenDomain = { name: string; version: string; chainId: number; verifyingContract: string };

const DOMAIN_TYPE = wordOfText(
  "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
);
const TRANSFER_TYPE = wordOfText(
  "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
);

/** The domain separator of EIP-712, 32 bytes in hex without 0x: made once for each token. */
export function domainSeparator({ name, version, chainId, verifyingContract }: TokenDomain): string {
  const chain = uintWord(BigInt(chainId));
  return hashOfWords(
    DOMAIN_TYPE,
    wordOfText(name),
    wordOfText(version),
    chain,
    addressWord(verifyingContract),
  ).slice(2);
}

/** The 32 bytes a payer signs to authorize a transfer (EIP-3009, EIP-712). */
export function authorizationDigest(separator: string, authorization: Authorization): Uint8Array {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const struct = hashOfWords(
    TRANSFER_TYPE,
    addressWord(from),
    addressWord(to),
    uintWord(value),
    uintWord(validAfter),
    uintWord(validBefore),
    bytes32Word(nonce),
  );
  return keccak256(Buffer.from(`1901${separator}${struct.slice(2)}`, "hex"));
}

function wordOfText(text: string): string {
  return keccak256Hex(Buffer.from(text)).slice(2);
}

function hashOfWords(...words: readonly string[]): `0x${string}` {
  return keccak256Hex(Buffer.from(words.join(""), "hex"));
}
