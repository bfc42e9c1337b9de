import { createRequire } from "node:module";
import { secp256k1 } from "@noble/curves/secp256k1";
import type { Logger } from "../platform/log/logger.ts";

/** The curve operations that Ethereum's signatures need. Digests and private keys have 32 bytes, signatures 64 (r and s). */
export type Curve = {
  /** Whether the bytes are in the range of private keys. */
  isPrivateKey(key: Uint8Array): boolean;
  /** Returns 65 bytes, uncompressed. */
  publicKeyOf(key: Uint8Array): Uint8Array;
  /** Returns a signature with a low s and a nonce of RFC 6979. */
  sign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recoveryId: number };
  /** Returns the uncompressed public key that made this signature. Throws if no key can be recovered. `recoveryId` is 0 or 1. */
  recover(signature: Uint8Array, recoveryId: number, digest: Uint8Array): Uint8Array;
};

/** The used part of the package `secp256k1`, which ships no types. */
type Bindings = {
  privateKeyVerify(key: Uint8Array): boolean;
  publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array;
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number };
  ecdsaRecover(
    signature: Uint8Array,
    recoveryId: number,
    digest: Uint8Array,
    compressed: boolean,
  ): Uint8Array;
};

let native: { curve: Curve | undefined } | undefined;

/**
 * Returns libsecp256k1, which is loaded at the first call, because most commands sign nothing. Returns undefined if the library was not built
 * and has no prebuilt binary for this machine. The package's main file would silently fall back to `elliptic`, so its bindings are loaded
 * directly.
 */
export function nativeCurve(): Curve | undefined {
  native ??= { curve: loadNativeCurve() };
  return native.curve;
}

/** The curve operations in JavaScript. */
export const portableCurve: Curve = {
  isPrivateKey: (key) => secp256k1.utils.isValidPrivateKey(key),
  publicKeyOf: (key) => secp256k1.getPublicKey(key, false),
  sign(digest, key) {
    const signature = secp256k1.sign(digest, key);
    return { signature: signature.toCompactRawBytes(), recoveryId: signature.recovery };
  },
  recover: (signature, recoveryId, digest) =>
    secp256k1.Signature.fromCompact(signature)
      .addRecoveryBit(recoveryId)
      .recoverPublicKey(digest)
      .toRawBytes(false),
};

/** Returns the native package if it loads, and otherwise the operations in JavaScript. */
export const curve = (): Curve => nativeCurve() ?? portableCurve;

/** Logs a warning if signatures are computed in JavaScript. */
export function warnIfPortable(log: Logger): void {
  if (nativeCurve() !== undefined) return;
  log.warn("signatures.slow", {
    reason: `the package secp256k1 has no binary for ${process.platform}/${process.arch}, so each signature takes about a millisecond of processor time`,
    remedy: "install python3, make and a C++ compiler, then run: npm rebuild secp256k1",
  });
}

function loadNativeCurve(): Curve | undefined {
  try {
    const require = createRequire(import.meta.url);
    const bindings = require("secp256k1/bindings.js") as Bindings;
    return {
      isPrivateKey: (key) => bindings.privateKeyVerify(key),
      publicKeyOf: (key) => bindings.publicKeyCreate(key, false),
      sign(digest, key) {
        const { signature, recid } = bindings.ecdsaSign(digest, key);
        return { signature, recoveryId: recid };
      },
      recover: (signature, recoveryId, digest) => bindings.ecdsaRecover(signature, recoveryId, digest, false),
    };
  } catch {
    return undefined;
  }
}
