import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../platform/time/clock.ts";

/** What a proof is for: the service that is asked, and when the client began to work (unix seconds). */
export type Puzzle = { serviceId: bigint; timestamp: bigint };

/** How far a puzzle's timestamp may be from the clock of the engine that checks its proof. */
export const CLOCK_SKEW_SECS = 30;

/** A client that does a few hundred thousand hashes a second needs nearly a minute for this: twice the time it has. */
export const DIFFICULTY_BEARABLE = 24;

const HASH_BYTES = 32;
const PROOF_BYTES = 8 + HASH_BYTES + 8;

/** The 32 bytes to work on: SHA-256 of both numbers, each as 8 bytes, big-endian. */
export function challengeOf({ serviceId, timestamp }: Puzzle): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64BE(serviceId, 0);
  bytes.writeBigUInt64BE(timestamp, 8);
  return createHash("sha256").update(bytes).digest();
}

/** SHA-256 of the challenge and the nonce, which is 8 bytes, big-endian. */
export function workHash(challenge: Uint8Array, nonce: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(nonce);
  return createHash("sha256").update(challenge).update(bytes).digest();
}

/** Whether a hash begins with this many zero bits; at most 64. */
function hasLeadingZeroBits(hash: Buffer, bits: number): boolean {
  return hash.readBigUInt64BE() >> BigInt(64 - bits) === 0n;
}

/** The 48 bytes of a proof: 32 as uint64, the hash, the nonce as uint64, both little-endian. */
export function encodeProof(hash: Uint8Array, nonce: bigint): Buffer {
  const proof = Buffer.alloc(PROOF_BYTES);
  proof.writeBigUInt64LE(BigInt(HASH_BYTES), 0);
  proof.set(hash, 8);
  proof.writeBigUInt64LE(nonce, 8 + HASH_BYTES);
  return proof;
}

type CheckedProof = { ok: true; nonce: bigint } | { ok: false; problem: string };

/** Whether the work was done for this puzzle, at this difficulty in leading zero bits. */
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

/** The work on one timestamp ends after this time, so that there is time left to send the proof. */
const FRESH_FOR_SECS = CLOCK_SKEW_SECS - 10;

export type Solving = {
  clock: Clock;
  /** Called each time a timestamp gets too old, and the work begins again with a new one. */
  onStale?: (afterSecs: number) => void;
};

/**
 * Does a client's work: finds a proof whose timestamp is still fresh. It takes about 2^difficulty hashes and blocks the event loop
 * meanwhile. Beginning again with a new timestamp loses nothing: every nonce is equally likely to be good, whatever was tried before.
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

/** A nonce to begin with. Clients that began at the same one would find the same proof, and only one would be served. */
export function randomNonce(): bigint {
  return randomBytes(8).readBigUInt64BE() >> 1n;
}
