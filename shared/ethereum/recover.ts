import secp256k1 from "secp256k1";
import { keccak256 } from "./keccak.ts";

/** Half of the curve's order (SEC 2, secp256k1), rounded down: EIP-2 takes no `s` above it. */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

const SIGNATURE = /^0x[0-9a-fA-F]{130}$/;

/**
 * The lower-case address whose key made this signature over this 32-byte digest. `signature` is 65 bytes in hex (r, s, v)
 * with v 27 or 28 and a low s (EIP-2); undefined for any other form and where nothing can be recovered.
 */
export function recoverAddress(digest: Uint8Array, signature: string): `0x${string}` | undefined {
  if (!SIGNATURE.test(signature)) return undefined;
  const bytes = Buffer.from(signature.slice(2), "hex");
  const recoveryId = Number(bytes[64]) - 27;
  if (recoveryId !== 0 && recoveryId !== 1) return undefined;
  if (BigInt(`0x${bytes.toString("hex", 32, 64)}`) > HALF_ORDER) return undefined;
  return addressOf(bytes.subarray(0, 64), recoveryId, digest);
}

function addressOf(rs: Uint8Array, recoveryId: number, digest: Uint8Array): `0x${string}` | undefined {
  try {
    const key = secp256k1.ecdsaRecover(rs, recoveryId, digest, false);
    const hash = Buffer.from(keccak256(key.subarray(1)));
    return `0x${hash.toString("hex", 12)}`;
  } catch {
    return undefined;
  }
}
