import type { Secret } from "./secret.ts";

/** With fewer bits a secret may be found by trying. */
const BITS_MIN = 128;

/** The kinds of characters, with how many there are of each. Of others a generator writes two, as base64 and base64url do. */
const KINDS = [
  [/[a-z]/, 26],
  [/[A-Z]/, 26],
  [/[0-9]/, 10],
  [/[^a-zA-Z0-9]/, 2],
] as const;

/** Hexadecimal, but no decimal number. */
const HEX = /^(?=.*[a-f])[0-9a-f]+$/i;
const HEX_DIGITS_MIN = BITS_MIN / 4;

/**
 * Changes between small letters, capitals and digits. Random text has some six among ten characters, so 24 random bytes in base64 have
 * twice as many. Words have at most two each, so this takes six words with capitals, and any number without.
 */
const CHANGES_MIN = 12;

/** Fewer different steps at some distance are a repetition, or counting. */
const STEPS_MIN = 6;

/**
 * Whether a secret looks like at least 128 bits that a generator wrote, as `openssl rand -hex 32` does. Random characters cannot be told
 * from chosen ones for certain, so this is an estimate. It rejects what people choose: words, repetitions, and rows of characters. It
 * also rejects some short random secrets, but hardly any of 32 random bytes in hexadecimal or base64.
 */
export function looksRandom(secret: Secret): boolean {
  const text = secret.reveal();
  const isLong = HEX.test(text) ? text.length >= HEX_DIGITS_MIN : isMixed(text);
  return isLong && !isRegular(text);
}

function isMixed(text: string): boolean {
  const alphabet = KINDS.reduce((size, [kind, count]) => (kind.test(text) ? size + count : size), 0);
  if (text.length * Math.log2(alphabet) < BITS_MIN) return false;
  // Separators are left out: with them each word would change twice more.
  const runs = text.replaceAll(/[^a-zA-Z0-9]/g, "").match(/[a-z]+|[A-Z]+|[0-9]+/g) ?? [];
  return runs.length > CHANGES_MIN;
}

/** Repeated text has no step at the distance of its repetition; a row such as 0a1b2c has the same step everywhere. */
function isRegular(text: string): boolean {
  const codes = [...text].map((character) => character.charCodeAt(0));
  for (let distance = 1; distance <= text.length / 2; distance++) {
    const steps = codes.slice(distance).map((code, at) => code - (codes[at] ?? 0));
    if (new Set(steps).size < STEPS_MIN) return true;
  }
  return false;
}
