import { hashOfText, typedDataDigest } from "./typed-data.ts";
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

const TRANSFER_TYPE = hashOfText(
  "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
);

/** The 32 bytes a payer signs to authorize a transfer (EIP-3009, EIP-712). */
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
