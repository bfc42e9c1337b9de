import secp256k1 from "secp256k1";
import type { Address } from "./address.ts";
import { keccak256 } from "./keccak.ts";

/** Signs 32-byte digests with a key that it shows to nobody. */
export type Signer = {
  /** In lower case. */
  address: Address;
  /** 65 bytes: r, s (low, EIP-2), v 27 or 28. The same digest has the same signature (RFC 6979). */
  sign(digest: Uint8Array): Buffer;
};

const PRIVATE_KEY = /^0x[0-9a-fA-F]{64}$/;

/** Whether this is 0x and 64 hex digits, in the range of the curve's keys. */
export function isPrivateKey(text: string): boolean {
  return PRIVATE_KEY.test(text) && secp256k1.privateKeyVerify(bytesOf(text));
}

/** `privateKey` as `isPrivateKey` wants it. */
export function createSigner(privateKey: string): Signer {
  const key = bytesOf(privateKey);
  const publicKey = secp256k1.publicKeyCreate(key, false);
  const hash = Buffer.from(keccak256(publicKey.subarray(1)));
  return {
    address: `0x${hash.toString("hex", 12)}`,
    sign(digest) {
      const { signature, recid } = secp256k1.ecdsaSign(digest, key);
      return Buffer.concat([signature, Buffer.of(27 + recid)]);
    },
  };
}

function bytesOf(privateKey: string): Buffer {
  return Buffer.from(privateKey.slice(2), "hex");
}
