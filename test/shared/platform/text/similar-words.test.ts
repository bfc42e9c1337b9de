import { expect, test } from "vitest";
import { didYouMean, wordsLike } from "../../../../shared/platform/text/similar-words.ts";

const KNOWN = ["secret", "signature", "strict", "api-key", "hmac-sha1", "hmac-sha256", "hmac-sha512"];

test.each([
  ["secert", ["secret"]],
  ["SECRET", ["secret"]],
  ["apiKey", ["api-key"]],
  ["hmac_sha_256", ["hmac-sha256"]],
  ["signatures", ["signature"]],
  ["hmac", ["hmac-sha1", "hmac-sha256", "hmac-sha512"]],
  ["hmac-sha2", ["hmac-sha256"]],
  ["x", []],
  ["password", []],
  ["", []],
  ["secret".repeat(20), []],
])("the words similar to %j are %j", (word, meant) => {
  expect(wordsLike(word, KNOWN)).toEqual(meant);
});

test("a hint names at most three words as they are written, and is empty without a similar word", () => {
  const known = ["key-1", "key-2", "key-3", "key-4"];
  expect(didYouMean("key", known, (word) => `<${word}>`)).toBe(
    "; did you mean <key-1> or <key-2> or <key-3>?",
  );
  expect(didYouMean("nothing", known)).toBe("");
});
