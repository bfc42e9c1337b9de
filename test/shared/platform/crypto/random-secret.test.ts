import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { looksRandom } from "../../../../shared/platform/crypto/random-secret.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";

/** Bytes that look random and are the same in each run. */
const bytes = (seed: number) => createHash("sha256").update(String(seed)).digest();
const seeds = Array.from({ length: 300 }, (_, seed) => seed);

test.each<[string, (random: Buffer) => string]>([
  ["32 bytes in hexadecimal", (random) => random.toString("hex")],
  ["32 bytes in capital hexadecimal", (random) => random.toString("hex").toUpperCase()],
  ["16 bytes in hexadecimal", (random) => random.subarray(16).toString("hex")],
  ["32 bytes in base64", (random) => random.toString("base64")],
  ["32 bytes in base64url", (random) => random.toString("base64url")],
  ["32 bytes behind a prefix", (random) => `postern_live_${random.toString("hex")}`],
])("looksRandom accepts %s", (_, write) => {
  expect(seeds.map((seed) => write(bytes(seed))).filter((text) => !looksRandom(new Secret(text)))).toEqual(
    [],
  );
});

test.each<[string, string]>([
  ["31 hexadecimal digits", bytes(1).toString("hex").slice(1, 32)],
  ["21 characters of base64", bytes(1).toString("base64").slice(0, 21)],
  ["32 decimal digits", "83920174650918273645564738291029"],
  ["a repeated digit", "a".repeat(64)],
  ["a few hexadecimal digits repeated", "deadbeef".repeat(8)],
  ["all hexadecimal digits, twice", "0123456789abcdef0123456789abcdef"],
  ["the key of examples", "000102030405060708090a0b0c0d0e0f"],
  ["another key of examples", "00112233445566778899aabbccddeeff"],
  ["a short random word, twice", "k3Jx9QvT2mWzk3Jx9QvT2mWz"],
  ["alternating letters and digits", "a1B2c3D4e5F6g7H8i9J0k1L2"],
  ["words", "an-operators-token-of-a-test-that-is-rather-long-and-still-made-of-words"],
  ["words with capitals and a year", "Correct-Horse-Battery-Staple-Of-2024!"],
  ["words without separators", "CorrectHorseBatteryStaplePostern1"],
])("looksRandom rejects %s", (_, text) => {
  expect(looksRandom(new Secret(text))).toBe(false);
});
