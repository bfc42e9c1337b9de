import { challengeOf, encodeProof, type Puzzle, workHash } from "../../shared/pricing/proof-of-work.ts";

/** Returns the proof with the first valid nonce, starting at `from`. */
export function solve(puzzle: Puzzle, difficulty: number, from = 0n): Buffer {
  const challenge = challengeOf(puzzle);
  for (let nonce = from; ; nonce++) {
    const hash = workHash(challenge, nonce);
    if (hash.readBigUInt64BE() >> BigInt(64 - difficulty) === 0n) return encodeProof(hash, nonce);
  }
}
