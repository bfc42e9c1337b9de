import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { isEd25519 } from "../platform/crypto/jws.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { type SecretSource, secretValues } from "./secrets.ts";

/**
 * Keys with which the payment gateway signs receipts of payments. The first of the list signs. All are published, so
 * that receipts of retired keys can be verified.
 */
export type ReceiptKeys = { signing: KeyObject; published: readonly KeyObject[] };

/** `receipt_keys`: Ed25519 keys as PEM or JWK. For a retired key, the public key is enough. */
export function receiptKeys(from: SecretSource) {
  return secretValues(from).superRefine((secrets, context) => {
    secrets.forEach((secret, index) => {
      const read = readKey(secret);
      const isFit = read?.privateKey !== undefined || (read !== undefined && index > 0);
      const what = index === 0 ? "an Ed25519 private key" : "an Ed25519 key";
      const message = `must be ${what} as PEM or JWK; openssl genpkey -algorithm ed25519 creates one`;
      if (!isFit) context.addIssue({ code: "custom", path: [index], message });
    });
  });
}

/** Returns the keys of a validated list. */
export function toReceiptKeys(secrets: readonly Secret[]): ReceiptKeys {
  const keys = secrets.flatMap((secret) => readKey(secret) ?? []);
  const signing = keys[0]?.privateKey;
  if (signing === undefined) throw new Error("the first receipt key must be a private key");
  return { signing, published: keys.map(({ publicKey }) => publicKey) };
}

type Key = { publicKey: KeyObject; privateKey: KeyObject | undefined };

/**
 * Reads an Ed25519 key; returns undefined for anything else. Formats in which a public key looks like a private one,
 * such as hex digits, are not accepted: if a public key were used as a seed, anyone could sign.
 */
function readKey(secret: Secret): Key | undefined {
  const text = secret.reveal().trim();
  try {
    const read = text.startsWith("{") ? fromJwk(JSON.parse(text) as JsonWebKey) : fromPem(text);
    return isEd25519(read.publicKey) ? read : undefined;
  } catch {
    return undefined;
  }
}

function fromJwk(key: JsonWebKey): Key {
  const privateKey = key.d === undefined ? undefined : createPrivateKey({ key, format: "jwk" });
  return { publicKey: createPublicKey(privateKey ?? { key, format: "jwk" }), privateKey };
}

/** Reads a PEM. In a variable, `\n` may be written for a line break. */
function fromPem(text: string): Key {
  const pem = text.replaceAll("\\n", "\n");
  const privateKey = pem.includes("PRIVATE KEY-----") ? createPrivateKey(pem) : undefined;
  return { publicKey: createPublicKey(privateKey ?? pem), privateKey };
}
