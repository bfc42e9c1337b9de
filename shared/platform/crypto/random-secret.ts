import type { Secret } from "./secret.ts";

/** Minimum number of random bits. A secret with fewer may be found by guessing. */
const BITS_MIN = 128;

/**
 * Kinds of characters, and the number of characters of each kind in base64 and base64url. Besides letters and digits,
 * these have two.
 */
const KINDS = [
  [/[a-z]/, 26],
  [/[A-Z]/, 26],
  [/[0-9]/, 10],
  [/[^a-zA-Z0-9]/, 2],
] as const;

/** Hexadecimal with at least one letter. */
const HEX = /^(?=.*[a-f])[0-9a-f]+$/i;
const HEX_DIGITS_MIN = BITS_MIN / 4;

/**
 * Minimum number of changes from one kind of character to another: lower-case letters, upper-case letters and digits.
 * Random text has about six changes per ten characters, so 24 random bytes in base64 have about 19. A capitalized word
 * adds at most two, so people would have to join at least six such words.
 */
const CHANGES_MIN = 12;

/** Minimum number of different steps (`isRegular`) at each distance. Text with fewer is a repetition or a sequence. */
const STEPS_MIN = 6;

/**
 * Returns whether a secret looks like at least 128 random bits, such as the output of `openssl rand -hex 32`. This is
 * an estimate, because a chosen text may look random. It rejects texts that people choose: words, repetitions and
 * sequences. It also rejects some short random secrets, but almost none with 32 random bytes in hexadecimal or base64.
 */
export function looksRandom(secret: Secret): boolean {
  const text = secret.reveal();
  const isLong = HEX.test(text) ? text.length >= HEX_DIGITS_MIN : isMixed(text);
  return isLong && !isRegular(text);
}

function isMixed(text: string): boolean {
  const alphabet = KINDS.reduce((size, [kind, count]) => (kind.test(text) ? size + count : size), 0);
  if (text.length * Math.log2(alphabet) < BITS_MIN) return false;
  // Separators are removed before the runs of one kind are counted. With its separator, `two-words` would have two runs
  // instead of one, although `twowords` is just as random.
  const runs = text.replaceAll(/[^a-zA-Z0-9]/g, "").match(/[a-z]+|[A-Z]+|[0-9]+/g) ?? [];
  return runs.length > CHANGES_MIN;
}

/**
 * Returns whether the text is a repetition or a sequence. A step is the difference between the codes of two characters.
 * For some distance between the two, such a text has only a few different steps. In `abcabc` all steps at distance 3
 * are 0; in `0a1b2c` all steps at distance 2 are 1.
 */
function isRegular(text: string): boolean {
  const codes = [...text].map((character) => character.charCodeAt(0));
  for (let distance = 1; distance <= text.length / 2; distance++) {
    const steps = codes.slice(distance).map((code, at) => code - (codes[at] ?? 0));
    if (new Set(steps).size < STEPS_MIN) return true;
  }
  return false;
}
