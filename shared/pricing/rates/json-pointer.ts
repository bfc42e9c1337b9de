/**
 * What a JSON pointer (RFC 6901) points at in a JSON text, where that is a number or a string: its characters as they are
 * written, since a number that went through a double would be another one. Undefined where the text is no JSON, or
 * nothing of that kind is there.
 */
export function textAt(json: string, pointer: string): string | undefined {
  const document = withNumbersAsText(json);
  const found = pointer.split("/").slice(1).map(unescaped).reduce<unknown>(member, document);
  return typeof found === "string" ? found : undefined;
}

/** Strings first, so that the digits inside of them stay. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

function withNumbersAsText(json: string): unknown {
  try {
    JSON.parse(json);
    return JSON.parse(json.replace(TOKENS, (token) => (token.startsWith('"') ? token : `"${token}"`)));
  } catch {
    return undefined;
  }
}

function unescaped(token: string): string {
  return token.replaceAll("~1", "/").replaceAll("~0", "~");
}

function member(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(value) && !/^(?:0|[1-9]\d*)$/.test(key)) return undefined;
  return Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;
}
