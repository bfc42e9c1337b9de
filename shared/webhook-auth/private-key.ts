import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import type { Algorithm, SecretFormat } from "./signature-scheme.ts";

/*
 * Private keys of senders. An endpoint has only the public key, as its secret (key.ts). To test it, an operator creates a key pair.
 */

/** RFC 8410, section 7: the fixed beginning of a PKCS #8 key of Ed25519. */
const ED25519_PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const SEED_BYTES = 32;
const PUBLIC_KEY_BYTES = 32;

/**
 * A private key as PEM, as PKCS #8 in base64, as `whsk_` and base64, or as the 64 hex digits of an Ed25519 seed. Undefined if the text is
 * no key of this algorithm.
 */
export function parsePrivateKey(text: string, algorithm: Algorithm): KeyObject | undefined {
  try {
    const key = toKey(text.trim());
    const curve = key.asymmetricKeyDetails?.namedCurve;
    const fits = algorithm === "ed25519" ? key.asymmetricKeyType === "ed25519" : curve === "prime256v1";
    return fits ? key : undefined;
  } catch {
    return undefined;
  }
}

function toKey(text: string): KeyObject {
  if (text.startsWith("-----")) return createPrivateKey(text);
  if (/^[0-9a-fA-F]{64}$/.test(text)) return fromSeed(Buffer.from(text, "hex"));
  if (text.startsWith("whsk_")) return fromSeed(Buffer.from(text.slice("whsk_".length), "base64"));
  return createPrivateKey({ key: Buffer.from(text, "base64"), format: "der", type: "pkcs8" });
}

/** The public key may follow the seed. */
function fromSeed(bytes: Buffer): KeyObject {
  const key = Buffer.concat([ED25519_PKCS8, bytes.subarray(0, SEED_BYTES)]);
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}

/** The public half, as an endpoint's `secret` has it. */
export function publicHalf(key: KeyObject, format: SecretFormat | undefined): string {
  const spki = createPublicKey(key).export({ format: "der", type: "spki" });
  const last = spki.subarray(-PUBLIC_KEY_BYTES);
  if (format === "ed25519-hex") return last.toString("hex");
  return format === "ed25519-whpk" ? `whpk_${last.toString("base64")}` : spki.toString("base64");
}
