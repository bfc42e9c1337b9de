/**
 * Serializes JSON, with each unpaired surrogate replaced by U+FFFD as in UTF-8 encoding. `JSON.stringify` would write
 * it as an escape, and then Redis' cjson refuses the whole document.
 */
export function wellFormedJson(value: unknown): string {
  // `JSON.stringify` doubles each backslash of a text. The pair is matched first, so that the six characters `\ud800`
  // stay unchanged.
  const escapes = /\\\\|\\ud[89a-f][0-9a-f]{2}/g;
  return JSON.stringify(value).replaceAll(escapes, (found) => (found === "\\\\" ? found : "\ufffd"));
}
