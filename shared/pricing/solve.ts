import { randomBytes } from "node:crypto";
import type { Clock } from "../time/clock.ts";
import {
  CLOCK_SKEW_SECS,
  challengeOf,
  encodeProof,
  hasLeadingZeroBits,
  type Puzzle,
  workHash,
} from "./proof-of-work.ts";

/** The work on one timestamp ends here, so that there is time left to send the proof. */
const FRESH_FOR_SECS = CLOCK_SKEW_SECS - 10;

/**
 * Does a client's work: the proof with the first good nonce from `from` on. Takes about 2^difficulty hashes, and the event
 * loop with them.
 */
export function solve(puzzle: Puzzle, difficulty: number, from = 0n): Buffer {
  const challenge = challengeOf(puzzle);
  for (let nonce = from; ; nonce++) {
    const proof = proofAt(challenge, nonce, difficulty);
    if (proof !== undefined) return proof;
  }
}

type Work = { serviceId: bigint; difficulty: number };

export type Solving = {
  clock: Clock;
  /** Told each time a timestamp gets too old to work on, and a new one is taken. */
  onStale?: (afterSecs: number) => void;
};

/**
 * As `solve`, for now, and with a timestamp that is still fresh at the end. To begin again costs nothing: each nonce is as
 * likely to be a good one, whatever was tried before.
 */
export function solveNow({ serviceId, difficulty }: Work, { clock, onStale = () => {} }: Solving) {
  for (;;) {
    const timestamp = BigInt(Math.floor(clock() / 1000));
    const challenge = challengeOf({ serviceId, timestamp });
    const staleAt = (Number(timestamp) + FRESH_FOR_SECS) * 1000;
    for (let nonce = randomNonce(); clock() < staleAt; nonce++) {
      const proof = proofAt(challenge, nonce, difficulty);
      if (proof !== undefined) return { timestamp, proof };
    }
    onStale(FRESH_FOR_SECS);
  }
}

function proofAt(challenge: Uint8Array, nonce: bigint, difficulty: number): Buffer | undefined {
  const hash = workHash(challenge, nonce);
  return hasLeadingZeroBits(hash, difficulty) ? encodeProof(hash, nonce) : undefined;
}

/** A nonce to begin with: clients that begin at the same one would find the same proof, and only one of them is served. */
export function randomNonce(): bigint {
  return randomBytes(8).readBigUInt64BE() >> 1n;
}
