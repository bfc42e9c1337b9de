/** The part of the native package that is used; it ships no types. */
declare module "secp256k1" {
  const secp256k1: {
    /** The public key that made this signature (64 bytes, r and s) over this 32-byte digest. Throws when there is none. */
    ecdsaRecover(
      signature: Uint8Array,
      recoveryId: number,
      digest: Uint8Array,
      compressed: boolean,
    ): Uint8Array;
    /** r and s, 64 bytes, with a low s and a nonce of RFC 6979. */
    ecdsaSign(digest: Uint8Array, privateKey: Uint8Array): { signature: Uint8Array; recid: number };
    publicKeyCreate(privateKey: Uint8Array, compressed: boolean): Uint8Array;
    privateKeyVerify(privateKey: Uint8Array): boolean;
  };
  export = secp256k1;
}
