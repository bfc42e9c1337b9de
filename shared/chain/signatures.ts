import type { Address } from "./address.ts";
import { keccak256 } from "./keccak.ts";
import { curve } from "./secp256k1.ts";

/** Signs 32-byte digests with a key that it does not reveal. */
export type Signer = {
  /** In lower case. */
  address: Address;
  /** Returns 65 bytes: r, s (low, EIP-2), v 27 or 28. The same digest always gets the same signature (RFC 6979). */
  sign(digest: Uint8Array): Buffer;
};

const PRIVATE_KEY = /^(?:0x)?([0-9a-fA-F]{64})$/;

/** Error message for a text that is not a private key. */
export const PRIVATE_KEY_RULE = "must be a private key: 64 hex digits, with or without 0x before them";

/** Whether the text is 64 hex digits, with or without 0x, in the range of the curve's keys. */
export function isPrivateKey(text: string): boolean {
  return PRIVATE_KEY.test(text) && curve().isPrivateKey(bytesOf(text));
}

/** The private key in hex with 0x. `privateKey` must satisfy `isPrivateKey`. */
export function hexPrivateKey(privateKey: string): `0x${string}` {
  return `0x${digitsOf(privateKey)}`;
}

/** Creates a signer. `privateKey` must satisfy `isPrivateKey`. */
export function createSigner(privateKey: string): Signer {
  const key = bytesOf(privateKey);
  return {
    address: addressOf(curve().publicKeyOf(key)),
    sign(digest) {
      const { signature, recoveryId } = curve().sign(digest, key);
      return Buffer.concat([signature, Buffer.of(27 + recoveryId)]);
    },
  };
}

function bytesOf(privateKey: string): Buffer {
  return Buffer.from(digitsOf(privateKey), "hex");
}

function digitsOf(privateKey: string): string {
  return PRIVATE_KEY.exec(privateKey)?.[1] ?? "";
}

/** Half of the curve's order (SEC 2, secp256k1), rounded down. EIP-2 refuses an `s` above it. */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

const SIGNATURE = /^0x[0-9a-fA-F]{130}$/;

/**
 * The lower-case address whose key signed this 32-byte digest. `signature` is 65 bytes in hex (r, s, v) with v 27 or 28 and a low s
 * (EIP-2). Undefined for any other form, and if no key can be recovered.
 */
export function recoverAddress(digest: Uint8Array, signature: string, by = curve()): Address | undefined {
  if (!SIGNATURE.test(signature)) return undefined;
  const bytes = Buffer.from(signature.slice(2), "hex");
  const recoveryId = Number(bytes[64]) - 27;
  if (recoveryId !== 0 && recoveryId !== 1) return undefined;
  if (BigInt(`0x${bytes.toString("hex", 32, 64)}`) > HALF_ORDER) return undefined;
  try {
    return addressOf(by.recover(bytes.subarray(0, 64), recoveryId, digest));
  } catch {
    return undefined;
  }
}

/** The lower-case address of a public key in its uncompressed form, 65 bytes. */
function addressOf(publicKey: Uint8Array): Address {
  return `0x${Buffer.from(keccak256(publicKey.subarray(1))).toString("hex", 12)}`;
}

/** The 32 bytes that `personal_sign` signs for a text (EIP-191, version 0x45). */
export function personalMessageDigest(text: string): Uint8Array {
  const message = Buffer.from(text);
  return keccak256(Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${message.length}`), message]));
}
