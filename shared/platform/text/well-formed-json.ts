/**
 * JSON with U+FFFD in place of each half of a surrogate pair, as in any text that is encoded as UTF-8. `JSON.stringify` writes such a half
 * as an escape, and Redis' cjson refuses the whole document for it.
 */
export function wellFormedJson(value: unknown): string {
  // A backslash of the text itself is written as two.
  const escapes = /\\\\|\\ud[89a-f][0-9a-f]{2}/g;
  return JSON.stringify(value).replaceAll(escapes, (found) => (found === "\\\\" ? found : "\ufffd"));
}
