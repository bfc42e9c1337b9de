import {
  createHash,
  createHmac,
  type Hash,
  type Hmac,
  type KeyObject,
  timingSafeEqual,
  verify,
} from "node:crypto";
import { keccak256 } from "../chain/keccak.ts";
import { sameBytes } from "../platform/crypto/compare.ts";
import type { Algorithm } from "./signature-scheme.ts";
import type { RequestValues } from "./template.ts";

/** Verifies signatures of one message with one key. */
export type Verifier = {
  /** Receives the body's bytes as they arrive. */
  take(chunk: Buffer): void;
  /**
   * Returns whether any candidate is the signature of the message with this body. It compares all of them, even after a
   * match.
   */
  matches(values: RequestValues, candidates: readonly Buffer[]): boolean;
};

/**
 * Digests that are computed piece by piece while the body arrives. Keccak-256 is missing, because computing it piece by
 * piece takes 20 times as long.
 */
const DIGESTS: Partial<Record<Algorithm, (key: KeyObject) => Hash | Hmac>> = {
  "hmac-sha1": (key) => createHmac("sha1", key),
  "hmac-sha256": (key) => createHmac("sha256", key),
  "hmac-sha512": (key) => createHmac("sha512", key),
  sha256: () => createHash("sha256"),
};

/**
 * Size of a signature in bytes, by algorithm. ECDSA is missing because its DER signatures vary in size. `equal` is
 * missing because its value is the secret itself, of any length.
 */
export const SIGNATURE_BYTES: Partial<Record<Algorithm, number>> = {
  "hmac-sha1": 20,
  "hmac-sha256": 32,
  "hmac-sha512": 64,
  sha256: 32,
  "keccak-256": 32,
  ed25519: 64,
};

export function isHmac(algorithm: Algorithm): boolean {
  return algorithm.startsWith("hmac-");
}

/** Returns whether a signature is computed and compared, instead of verified with a public key. */
export function isDigest(algorithm: Algorithm): boolean {
  return algorithm === "keccak-256" || isStreamable(algorithm);
}

/** Returns whether a signature can be computed while the message arrives. */
export function isStreamable(algorithm: Algorithm): boolean {
  return DIGESTS[algorithm] !== undefined;
}

/**
 * Creates the verifier of a message that consists of `before`, the body and `after`. It computes the digest while the
 * body arrives.
 */
export function streamVerifier(
  algorithm: Algorithm,
  key: KeyObject,
  before: Buffer,
  after: Buffer,
): Verifier {
  const digest = digestOf(algorithm, key);
  if (before.length > 0) digest.update(before);
  let taken = 0;
  const take = (chunk: Buffer): void => {
    taken += chunk.length;
    digest.update(chunk);
  };
  return {
    take,
    matches({ body }, candidates) {
      if (taken === 0) take(body);
      if (after.length > 0) digest.update(after);
      const wanted = digest.digest();
      return some(candidates, (candidate) => timingSafeEqual(wanted, candidate));
    },
  };
}

/**
 * Creates the verifier of a message that `streamVerifier` cannot verify. The message is built once the body is
 * complete. `messagesWith` may return several messages, of which the sender may have signed any.
 */
export function messageVerifier(
  algorithm: Algorithm,
  key: KeyObject,
  messagesWith: (values: RequestValues) => readonly Buffer[],
): Verifier {
  return {
    take() {},
    matches(values, candidates) {
      return some(messagesWith(values), (message) =>
        some(candidates, createIsSignature(algorithm, key, message)),
      );
    },
  };
}

/**
 * Creates the function that checks a signature of this message. A digest is computed only once, for any number of
 * signatures.
 */
function createIsSignature(
  algorithm: Algorithm,
  key: KeyObject,
  message: Buffer,
): (candidate: Buffer) => boolean {
  switch (algorithm) {
    case "ed25519":
      return (candidate) => verify(null, message, key, candidate);
    case "ecdsa-p256":
      return (candidate) => verify("sha256", message, key, candidate);
    case "equal":
      return (candidate) => sameBytes(candidate, key.export());
    default: {
      const mac = macOf(algorithm, key, message);
      return (candidate) => timingSafeEqual(mac, candidate);
    }
  }
}

export function macOf(algorithm: Algorithm, key: KeyObject, message: Buffer): Buffer {
  if (algorithm === "keccak-256") return Buffer.from(keccak256(message));
  const digest = digestOf(algorithm, key);
  digest.update(message);
  return digest.digest();
}

function digestOf(algorithm: Algorithm, key: KeyObject) {
  const create = DIGESTS[algorithm];
  if (create === undefined) throw new TypeError(`${algorithm} is no digest`);
  return create(key);
}

/** Works like Array.some, but continues after a match, so that the time does not show which item matched. */
export function some<Item>(items: readonly Item[], holds: (item: Item) => boolean): boolean {
  let found = false;
  for (const item of items) {
    if (holds(item)) found = true;
  }
  return found;
}
