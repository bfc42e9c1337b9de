/**
 * Limits on JSON from strangers. With deeper JSON, a check that recurses into it would overflow the stack. More values
 * would use up the memory.
 */
const DEPTH_MAX = 64;
const VALUES_MAX = 100_000;

export type ParsedJson = { ok: true; value: unknown } | { ok: false; problem: string };

/**
 * Parses JSON in UTF-8 (RFC 8259, without a byte order mark), unless `jsonSizeProblem` finds a problem. A problem never
 * quotes the text.
 */
export function parseBoundedJson(bytes: Uint8Array): ParsedJson {
  const problem = jsonSizeProblem(bytes);
  if (problem !== undefined) return { ok: false, problem };
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false, problem: bytes.length === 0 ? "is empty" : "is not JSON in UTF-8" };
  }
}

const [SPACE, QUOTE, COMMA, BACKSLASH] = [0x20, 0x22, 0x2c, 0x5c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Describes the problem of JSON that is too deep or has too many values. It counts brackets and commas in the bytes, so
 * that it need not parse them, and takes about 3 ms per MiB. It examines only text that begins a list or an object. Any
 * other text is a single value, or parsing it fails early.
 */
export function jsonSizeProblem(bytes: Uint8Array): string | undefined {
  let depth = 0;
  let values = 1;
  for (let at = startOfTree(bytes); at < bytes.length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfString(bytes, at);
        break;
      case COMMA:
        values += 1;
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth -= 1;
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth += 1;
        values += 1;
    }
    if (depth > DEPTH_MAX) return `is nested more than ${DEPTH_MAX} levels deep`;
    if (values > VALUES_MAX) return `has more than ${VALUES_MAX} values`;
  }
  return undefined;
}

/** Returns the position at which the list or object begins, or the end of the bytes if they begin with neither. */
function startOfTree(bytes: Uint8Array): number {
  let at = 0;
  while (at < bytes.length && (bytes[at] ?? 0) <= SPACE) at += 1;
  return bytes[at] === OPEN_LIST || bytes[at] === OPEN_OBJECT ? at : bytes.length;
}

/** Returns the end of the string that begins at `start`. */
export function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1;
  for (; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at += 1;
  return at;
}
