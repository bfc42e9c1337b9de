import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../platform/time/clock.ts";

/** The task of a proof: the requested service, and the time at which the client began to work (unix seconds). */
export type Puzzle = { serviceId: bigint; timestamp: bigint };

/** Permitted difference between a puzzle's timestamp and the clock of the engine that checks its proof. */
export const CLOCK_SKEW_SECS = 30;

/**
 * Highest difficulty that is acceptable for clients: the number of zero bits with which a hash must begin. A client with
 * a few hundred thousand hashes per second needs nearly a minute for it. The puzzle's timestamp becomes too old before
 * that, so such a client begins again with a new one once or twice.
 */
export const DIFFICULTY_BEARABLE = 24;

const HASH_BYTES = 32;
const PROOF_BYTES = 8 + HASH_BYTES + 8;

/** Returns the 32 bytes to work on: SHA-256 of both numbers, each as 8 bytes, big-endian. */
export function challengeOf({ serviceId, timestamp }: Puzzle): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64BE(serviceId, 0);
  bytes.writeBigUInt64BE(timestamp, 8);
  return createHash("sha256").update(bytes).digest();
}

/** Returns SHA-256 of the challenge and the nonce, which is 8 bytes, big-endian. */
export function workHash(challenge: Uint8Array, nonce: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(nonce);
  return createHash("sha256").update(challenge).update(bytes).digest();
}

/** Whether a hash begins with this many zero bits; at most 64. */
function hasLeadingZeroBits(hash: Buffer, bits: number): boolean {
  return hash.readBigUInt64BE() >> BigInt(64 - bits) === 0n;
}

/**
 * Returns the 48 bytes of a proof: the length of the hash (32) as uint64, the hash, and the nonce as uint64. Both
 * integers are little-endian.
 */
export function encodeProof(hash: Uint8Array, nonce: bigint): Buffer {
  const proof = Buffer.alloc(PROOF_BYTES);
  proof.writeBigUInt64LE(BigInt(HASH_BYTES), 0);
  proof.set(hash, 8);
  proof.writeBigUInt64LE(nonce, 8 + HASH_BYTES);
  return proof;
}

type CheckedProof = { ok: true; nonce: bigint } | { ok: false; problem: string };

/** Checks whether a proof is for this puzzle, and has this difficulty in leading zero bits. */
export function checkProof(proof: Uint8Array, puzzle: Puzzle, difficulty: number): CheckedProof {
  if (proof.length !== PROOF_BYTES) return { ok: false, problem: `must be ${PROOF_BYTES} bytes` };
  const bytes = Buffer.from(proof);
  const nonce = bytes.readBigUInt64LE(8 + HASH_BYTES);
  const hash = workHash(challengeOf(puzzle), nonce);
  if (!encodeProof(hash, nonce).equals(bytes)) {
    return { ok: false, problem: "does not match this service_id and challenge_timestamp" };
  }
  if (!hasLeadingZeroBits(hash, difficulty)) {
    return { ok: false, problem: `must have ${difficulty} leading zero bits in its hash` };
  }
  return { ok: true, nonce };
}

/**
 * Time after which a client that has found no proof begins again with a new timestamp. It is shorter than the permitted skew, so
 * that there is time left to send a proof that was found.
 */
const FRESH_FOR_SECS = CLOCK_SKEW_SECS - 10;

export type Solving = {
  clock: Clock;
  /** Called each time a timestamp gets too old, so that the work begins again with a new one. */
  onStale?: (afterSecs: number) => void;
};

/**
 * Does the work of a client: finds a proof whose timestamp is not too old. It takes about 2^difficulty hashes, and blocks the
 * event loop until it has found one. If the timestamp gets too old, it begins again with a new one. Nothing is lost by that,
 * because every nonce is equally likely to succeed.
 */
export function solveNow(
  { serviceId, difficulty }: { serviceId: bigint; difficulty: number },
  { clock, onStale = () => {} }: Solving,
) {
  for (;;) {
    const timestamp = BigInt(Math.floor(clock() / 1000));
    const challenge = challengeOf({ serviceId, timestamp });
    const staleAt = (Number(timestamp) + FRESH_FOR_SECS) * 1000;
    for (let nonce = randomNonce(); clock() < staleAt; nonce++) {
      const hash = workHash(challenge, nonce);
      if (hasLeadingZeroBits(hash, difficulty)) return { timestamp, proof: encodeProof(hash, nonce) };
    }
    onStale(FRESH_FOR_SECS);
  }
}

/**
 * Returns a random nonce with which to begin the search. Clients that begin with the same nonce in the same second find the same
 * proof, and an engine limits the number of requests with one proof.
 */
export function randomNonce(): bigint {
  return randomBytes(8).readBigUInt64BE() >> 1n;
}
