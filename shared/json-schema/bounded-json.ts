/** What JSON that strangers write may become: deeper, a recursive check has no stack; more values, and memory is short. */
const DEPTH_MAX = 64;
const VALUES_MAX = 100_000;

export type ParsedJson = { ok: true; value: unknown } | { ok: false; problem: string };

/**
 * Parses JSON in UTF-8 (RFC 8259, without a byte order mark). The bytes are looked through for depth and number of values before
 * anything is made of them. The problem never quotes what was sent.
 */
export function parseBoundedJson(bytes: Uint8Array): ParsedJson {
  const problem = sizeProblem(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  if (problem !== undefined) return { ok: false, problem };
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false, problem: bytes.length === 0 ? "is empty" : "is not JSON in UTF-8" };
  }
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

function sizeProblem(bytes: Buffer): string | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = endOfString(bytes, at);
    else if (byte === COMMA) values += 1;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1;
      values += 1;
    }
    if (depth > DEPTH_MAX) return `is nested more than ${DEPTH_MAX} deep`;
    if (values > VALUES_MAX) return `has more than ${VALUES_MAX} values`;
  }
  return undefined;
}

/** Where the string that begins at `start` ends; the last byte if it does not. */
export function endOfString(bytes: Buffer, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end !== -1; end = bytes.indexOf(QUOTE, end + 1)) {
    let escapes = 0;
    while (bytes[end - 1 - escapes] === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return bytes.length - 1;
}
