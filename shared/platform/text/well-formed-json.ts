/**
 * Serializes a value as JSON, and replaces each unpaired surrogate by U+FFFD, as UTF-8 encoding does. `JSON.stringify`
 * writes an unpaired surrogate as an escape. The JSON parser of Redis' scripts (cjson) would refuse the whole document
 * because of it.
 */
export function wellFormedJson(value: unknown): string {
  // A text may contain the six characters `\ud800`, which are no surrogate. `JSON.stringify` doubles their backslash.
  // The pattern matches the two backslashes first, so that such a text stays unchanged.
  const escapes = /\\\\|\\ud[89a-f][0-9a-f]{2}/g;
  return JSON.stringify(value).replaceAll(escapes, (found) => (found === "\\\\" ? found : "\ufffd"));
}
