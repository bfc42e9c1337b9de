import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  challengeOf,
  checkProof,
  encodeProof,
  solveNow,
  workHash,
} from "../../../shared/pricing/proof-of-work.ts";
import { solve } from "../../support/solve.ts";

const puzzle = { serviceId: 42n, timestamp: 1_700_000_000n };

test("the challenge of a service and a time is the known answer", () => {
  expect(challengeOf(puzzle).toString("hex")).toBe(
    "1089e2574e669f834d27534209bfb266488f47db2a15e07967eac47ff878e4ef",
  );
});

test("the proof with the lowest valid nonce at difficulty 20 is the known answer of 48 bytes", () => {
  const nonce = Buffer.alloc(8);
  nonce.writeBigUInt64BE(220_500n);
  const hash = createHash("sha256").update(challengeOf(puzzle)).update(nonce).digest("hex");
  expect(hash).toMatch(/^00000/);
  const proof = solve(puzzle, 20);
  expect(proof.toString("hex")).toBe(`2000000000000000${hash}545d030000000000`);
  expect(checkProof(proof, puzzle, 20)).toEqual({ ok: true, nonce: 220_500n });
});

describe("what is refused", () => {
  const proof = solve(puzzle, 12);
  const hash = workHash(challengeOf(puzzle), 5n);

  test.each([
    ["that is shorter", proof.subarray(0, 47)],
    ["that is longer", Buffer.concat([proof, Buffer.alloc(1)])],
    ["that is empty", Buffer.alloc(0)],
    ["whose length is another", Buffer.concat([Buffer.of(33), proof.subarray(1)])],
    [
      "whose length is big-endian",
      Buffer.concat([Buffer.from("0000000000000020", "hex"), proof.subarray(8)]),
    ],
    ["whose work is not enough", encodeProof(hash, 5n)],
    ["whose hash is made up", encodeProof(Buffer.alloc(32), 5n)],
  ])("a proof of work %s is refused", (_, bytes) => {
    expect(checkProof(bytes, puzzle, 12).ok).toBe(false);
  });

  test("a proof of work with any bit changed is refused", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 48 * 8 - 1 }), (bit) => {
        const changed = Buffer.from(proof);
        changed[bit >> 3] = Number(changed[bit >> 3]) ^ (1 << (bit & 7));
        expect(checkProof(changed, puzzle, 12).ok).toBe(false);
      }),
      { numRuns: 400 },
    );
  });

  test("a proof of work for another service or another time is refused", () => {
    expect(checkProof(proof, { ...puzzle, serviceId: 43n }, 12).ok).toBe(false);
    expect(checkProof(proof, { ...puzzle, timestamp: 1_700_000_001n }, 12).ok).toBe(false);
  });
});

test("a proof of work needs at least as many leading zero bits as the difficulty", () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 2n ** 64n - 1n), fc.integer({ min: 0, max: 64 }), (nonce, difficulty) => {
      const hash = workHash(challengeOf(puzzle), nonce);
      const bits = [...hash].map((byte) => byte.toString(2).padStart(8, "0")).join("");
      expect(checkProof(encodeProof(hash, nonce), puzzle, difficulty).ok).toBe(
        bits.startsWith("0".repeat(difficulty)),
      );
    }),
  );
});

describe("a client's proof of work", () => {
  /** Returns a clock that shows each of these seconds once, and then the last one. */
  function clockOf(...secs: number[]) {
    return () => Number(secs.length > 1 ? secs.shift() : secs[0]) * 1000;
  }

  test("has the timestamp of its start if that is still fresh at its end", () => {
    const stale: number[] = [];
    const work = { serviceId: 42n, difficulty: 0 };
    const { timestamp, proof } = solveNow(work, { clock: clockOf(100, 119), onStale: (s) => stale.push(s) });
    expect([timestamp, stale]).toEqual([100n, []]);
    expect(checkProof(proof, { serviceId: 42n, timestamp }, 0).ok).toBe(true);
  });

  test("starts again with a new timestamp, and reports it, if it takes too long", () => {
    const stale: number[] = [];
    const clock = clockOf(100, 120, 121, 141, 142);
    const work = { serviceId: 42n, difficulty: 8 };
    const { timestamp, proof } = solveNow(work, { clock, onStale: (s) => stale.push(s) });
    expect([timestamp, stale]).toEqual([142n, [20, 20]]);
    expect(checkProof(proof, { serviceId: 42n, timestamp }, 8).ok).toBe(true);
  });

  test("has a timestamp that an engine still accepts, even if the work took long", () => {
    let ms = 0;
    const clock = () => {
      ms += 50;
      return ms;
    };
    const { timestamp } = solveNow({ serviceId: 42n, difficulty: 12 }, { clock });
    expect(ms / 1000 - Number(timestamp)).toBeLessThan(21);
  });
});
