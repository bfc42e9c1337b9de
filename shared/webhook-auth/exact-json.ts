import { endOfString } from "../platform/text/bounded-json.ts";

/**
 * Parses valid JSON. JSON.parse rounds whole numbers beyond the safe range (2^53), so that two different ids could
 * become equal. Here such a number becomes text with its digits: they are put into quotes before the JSON is parsed. A
 * large number with a point or an exponent stays a number. The search for the numbers takes one pass over the bytes,
 * without recursion.
 */
export function parseExactJson(json: Buffer): unknown {
  // Space for the result. Only a number of at least 16 digits can get two quotes, so an eighth more is enough.
  const quoted = Buffer.allocUnsafe(json.length + Math.ceil(json.length / 8));
  let size = 0;
  let from = 0;
  for (let at = 0; at < json.length; at++) {
    if (json[at] === QUOTE) at = endOfString(json, at);
    if (!isDigit(json[at])) continue;
    const end = endOfDigits(json, at);
    const isWhole = !isNumberSign(json[end]);
    if (isWhole && isRounded(json, at, end)) {
      const start = json[at - 1] === MINUS ? at - 1 : at;
      size += json.copy(quoted, size, from, start);
      quoted[size++] = QUOTE;
      size += json.copy(quoted, size, start, end);
      quoted[size++] = QUOTE;
      from = end;
    }
    at = isWhole ? end : endOfNumber(json, end);
  }
  size += json.copy(quoted, size, from);
  return JSON.parse(quoted.toString("utf8", 0, size));
}

const [QUOTE, MINUS, ZERO, NINE] = [0x22, 0x2d, 0x30, 0x39];

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function endOfDigits(json: Buffer, start: number): number {
  let end = start;
  while (isDigit(json[end])) end += 1;
  return end;
}

/** Returns the end of a number with a point or an exponent. */
function endOfNumber(json: Buffer, start: number): number {
  let end = start;
  while (isDigit(json[end]) || isNumberSign(json[end])) end += 1;
  return end;
}

/** Returns whether the byte is one of `+-.Ee`. */
function isNumberSign(byte: number | undefined): boolean {
  return byte === 0x2b || byte === MINUS || byte === 0x2e || byte === 0x45 || byte === 0x65;
}

/**
 * Returns whether this whole number is beyond the safe range, so that JSON.parse may round it. A number with fewer than
 * 16 digits never is, and one with more than 16 always is.
 */
function isRounded(json: Buffer, start: number, end: number): boolean {
  if (end - start !== 16) return end - start > 16;
  return !Number.isSafeInteger(Number(json.toString("latin1", start, end)));
}
