import { keccak_256 } from "@noble/hashes/sha3.js";
import fc from "fast-check";
import { expect, test } from "vitest";
import { keccak256 } from "../../../shared/chain/keccak.ts";

test("Keccak-256 is the same in WebAssembly and in JavaScript", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 1500 }), (bytes) => {
      expect(keccak256(bytes)).toEqual(keccak_256(bytes));
    }),
  );
});

test("a computed hash does not change when the next hash is computed", () => {
  const first = keccak256(Buffer.from("a"));
  const before = Buffer.from(first).toString("hex");
  keccak256(Buffer.from("b"));
  expect(Buffer.from(first).toString("hex")).toBe(before);
});
