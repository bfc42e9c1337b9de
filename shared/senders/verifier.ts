import { createHash, createHmac, type KeyObject, timingSafeEqual, verify } from "node:crypto";
import { sameBytes } from "../crypto/compare.ts";
import { keccak256 } from "../ethereum/encoding.ts";
import type { Algorithm } from "./description.ts";
import type { Key } from "./key.ts";
import type { RequestValues } from "./template.ts";

/** Compares signatures over one message with one key. */
export type Verifier = {
  /** Takes the body's bytes as they arrive. */
  take(chunk: Buffer): void;
  /** Whether any candidate signs the message with this body. All are compared, also after a match. */
  matches(values: RequestValues, candidates: readonly Buffer[]): boolean;
};

const HMAC_HASHES: Partial<Record<Algorithm, string>> = {
  "hmac-sha1": "sha1",
  "hmac-sha256": "sha256",
  "hmac-sha512": "sha512",
};

/** Bytes in a signature of this algorithm; those of ECDSA as DER differ, and `equal` compares text. */
export const SIGNATURE_BYTES: Partial<Record<Algorithm, number>> = {
  "hmac-sha1": 20,
  "hmac-sha256": 32,
  "hmac-sha512": 64,
  sha256: 32,
  "keccak-256": 32,
  ed25519: 64,
};

export function isHmac(algorithm: Algorithm): boolean {
  return HMAC_HASHES[algorithm] !== undefined;
}

/** For a message that is the body between some bytes: the HMAC is nearly done when the last byte of the body is there. */
export function hmacVerifier(algorithm: Algorithm, key: Key, before: Buffer, after: Buffer): Verifier {
  const hmac = createHmac(HMAC_HASHES[algorithm] as string, key);
  if (before.length > 0) hmac.update(before);
  let taken = 0;
  const take = (chunk: Buffer): void => {
    taken += chunk.length;
    hmac.update(chunk);
  };
  return {
    take,
    matches({ body }, candidates) {
      if (taken === 0) take(body);
      if (after.length > 0) hmac.update(after);
      const digest = hmac.digest();
      return some(candidates, (candidate) => timingSafeEqual(digest, candidate));
    },
  };
}

/** For any other message, which is made when the body is there. */
export function messageVerifier(
  algorithm: Algorithm,
  key: Key,
  messageWith: (values: RequestValues) => Buffer,
): Verifier {
  return {
    take() {},
    matches(values, candidates) {
      const message = messageWith(values);
      return some(candidates, (candidate) => isSignature(algorithm, key, message, candidate));
    },
  };
}

function isSignature(algorithm: Algorithm, key: Key, message: Buffer, candidate: Buffer): boolean {
  switch (algorithm) {
    case "hmac-sha1":
    case "hmac-sha256":
    case "hmac-sha512":
      return timingSafeEqual(hmacOf(algorithm, key, message), candidate);
    case "sha256":
      return timingSafeEqual(createHash("sha256").update(message).digest(), candidate);
    case "keccak-256":
      return timingSafeEqual(keccak256(message), candidate);
    case "ed25519":
      return verify(null, message, key as KeyObject, candidate);
    case "ecdsa-p256":
      return verify("sha256", message, key as KeyObject, candidate);
    case "equal":
      return sameBytes(candidate, key as Buffer);
  }
}

export function hmacOf(algorithm: Algorithm, key: Key, message: Buffer): Buffer {
  return createHmac(HMAC_HASHES[algorithm] as string, key)
    .update(message)
    .digest();
}

/** Like Array.some, but it goes on after a match, so that the time does not tell which one it was. */
export function some<Item>(items: readonly Item[], holds: (item: Item) => boolean): boolean {
  let found = false;
  for (const item of items) {
    if (holds(item)) found = true;
  }
  return found;
}
