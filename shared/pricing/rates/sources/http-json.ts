import type { HttpJsonSource } from "../../../config/rate-source.ts";
import { createHttpClient } from "../../../http/client.ts";
import { AppError } from "../../../platform/errors/app-error.ts";
import { parseDecimal, toDecimal } from "../../../platform/text/decimal.ts";
import { noRate, type ReadOptions, type ReadRate } from "../source.ts";

const ANSWER_BYTES_MAX = 64 * 1024;

/** A number in a JSON document, fetched over https: status 200 only, no redirects, at most 64 KiB, one deadline. */
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
  const { origin, pathname, search } = new URL(url.reveal());
  const revealed = Object.entries(own).map(([name, secret]): [string, string] => [name, secret.reveal()]);
  const headers = {
    accept: "application/json",
    ...Object.fromEntries(revealed),
    "accept-encoding": "identity",
  };
  const client = createHttpClient({ base: new URL(origin), headers, answerBytesMax: ANSWER_BYTES_MAX, ca });
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const answer = await client.exchange({ path: `${pathname}${search}`, body: undefined, signal });
    if (answer.status !== 200) throw noRate(`status ${answer.status}`);
    if (answer.text === undefined) throw noRate(`the answer is longer than ${ANSWER_BYTES_MAX} bytes`);
    return answer.text;
  } catch (error) {
    if (signal.aborted) throw noRate(`no answer within ${timeoutMs} ms`);
    if (error instanceof AppError) throw error;
    const { code, name } = error as NodeJS.ErrnoException;
    throw noRate(`the request failed (${code ?? name})`);
  } finally {
    await client.close();
  }
}

/**
 * The number or string that a JSON pointer (RFC 6901) points at, in the characters of the text itself: a number that went
 * through a double would be another one. Undefined if the text is no JSON, or if no number or string is there.
 */
export function textAt(json: string, pointer: string): string | undefined {
  const document = withNumbersAsText(json);
  const found = pointer.split("/").slice(1).map(unescaped).reduce<unknown>(member, document);
  return typeof found === "string" ? found : undefined;
}

/** Strings come first, so that digits inside them stay as they are. */
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
