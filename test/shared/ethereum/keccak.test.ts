import fc from "fast-check";
import { expect, test } from "vitest";
import { createKeccak256, keccak256 } from "../../../shared/ethereum/keccak.ts";

test("Keccak-256 is the same of whole bytes and of bytes that come in pieces", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 5 }), (pieces) => {
      const whole = keccak256(Buffer.concat(pieces));
      const hasher = createKeccak256();
      for (const piece of pieces) hasher.update(piece);
      expect(Buffer.from(whole).toString("hex")).toBe(Buffer.from(hasher.digest()).toString("hex"));
    }),
  );
});

test("a hash is not changed by the next one", () => {
  const first = keccak256(Buffer.from("a"));
  const before = Buffer.from(first).toString("hex");
  keccak256(Buffer.from("b"));
  expect(Buffer.from(first).toString("hex")).toBe(before);
});
