import { generateKeyPairSync } from "node:crypto";

/** Makes a key for receipts, in the formats that `receipt_keys` accepts. */
export function newReceiptKey() {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return {
    pem: privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
    jwk: JSON.stringify(privateKey.export({ format: "jwk" })),
    publicPem: publicKey.export({ format: "pem", type: "spki" }).toString(),
    publicJwk: JSON.stringify(publicKey.export({ format: "jwk" })),
  };
}
