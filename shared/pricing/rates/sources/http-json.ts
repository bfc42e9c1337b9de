import type { HttpJsonSource } from "../../../config/rate-source.ts";
import { getText } from "../../../http/get-text.ts";
import { messageOf } from "../../../platform/errors/app-error.ts";
import { parseDecimal, toDecimal } from "../../../platform/text/decimal.ts";
import { noRate, type ReadOptions, type ReadRate } from "../source.ts";

const ANSWER_BYTES_MAX = 64 * 1024;

/**
 * Creates the reader of a number in a JSON document, which it gets over https. Only an answer with status 200 counts. Redirects
 * are not followed. The document may have at most 64 KiB.
 */
export function httpJsonReader(source: HttpJsonSource, options: ReadOptions): ReadRate {
  return async () => {
    const text = textAt(await fetchText(source, options), source.pointer);
    if (text === undefined) throw noRate(`no number at ${source.pointer || "the root"}`);
    const value = parseDecimal(text);
    if (value === undefined || value.numerator === 0n)
      throw noRate(`the value at ${source.pointer || "the root"} must be a number above 0`);
    return toDecimal(value);
  };
}

async function fetchText(
  { url, headers: own }: HttpJsonSource,
  { timeoutMs, ca }: ReadOptions,
): Promise<string> {
  const revealed = Object.entries(own).map(([name, secret]): [string, string] => [name, secret.reveal()]);
  const headers = { accept: "application/json", ...Object.fromEntries(revealed) };
  try {
    return await getText(new URL(url.reveal()), { headers, bytesMax: ANSWER_BYTES_MAX, timeoutMs, ca });
  } catch (error) {
    throw noRate(messageOf(error));
  }
}

/**
 * Returns the number or string at a JSON pointer (RFC 6901). A number is returned exactly as it is written in the text, because a
 * conversion to a double could change it. Undefined if the text is not JSON, or has no number or string at the pointer.
 */
export function textAt(json: string, pointer: string): string | undefined {
  const document = withNumbersAsText(json);
  const found = pointer.split("/").slice(1).map(unescaped).reduce<unknown>(member, document);
  return typeof found === "string" ? found : undefined;
}

/**
 * Strings and numbers in a JSON text. Strings come first in the pattern, so that digits inside them are not matched as numbers.
 */
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
