import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";

/**
 * Returns every value of a header, in order. `name` is in lower case. `req.headers` joins or drops repeated headers,
 * which would hide a credential that was sent twice.
 */
export function headerValues(req: Pick<IncomingMessage, "rawHeaders">, name: string): string[] {
  const values: string[] = [];
  const { rawHeaders } = req;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const key = rawHeaders[i] as string;
    if (key.length === name.length && key.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values;
}

/** Returns every value of every header, by lower-case name. `req.headers` would join or drop repeated ones. */
export function allHeaders({ rawHeaders }: Pick<IncomingMessage, "rawHeaders">): Record<string, string[]> {
  const headers: Record<string, string[]> = Object.create(null);
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase();
    headers[name] ??= [];
    headers[name].push(rawHeaders[i + 1] as string);
  }
  return headers;
}

/**
 * Returns the value of a header that must occur exactly once. `name` is in lower case. If it occurred twice, a proxy
 * could check one value and this program use the other.
 */
export function onlyHeaderValue(
  req: IncomingMessage,
  name: string,
): { value: string } | { problem: "missing" | "repeated" } {
  const [value, ...more] = headerValues(req, name);
  if (value === undefined) return { problem: "missing" };
  return more.length > 0 ? { problem: "repeated" } : { value };
}

/** Returns the bytes of a header value, which Node decodes as latin1. */
export function headerBytes(value: string): Buffer {
  return Buffer.from(value, "latin1");
}

/**
 * Returns the text of a header value that Node decoded as latin1. It is decoded as UTF-8 if its bytes are valid UTF-8.
 */
export function headerText(value: string): string {
  const bytes = headerBytes(value);
  return isUtf8(bytes) ? bytes.toString("utf8") : value;
}

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Returns the request's W3C trace context if it is well-formed. */
export function traceparentOf(req: IncomingMessage): string | undefined {
  const value = req.headers["traceparent"];
  return typeof value === "string" && TRACEPARENT.test(value) ? value : undefined;
}

/** Parses Retry-After (RFC 9110, section 10.2.3), given in seconds or as an HTTP date, into milliseconds. */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const text = value.trim();
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

const ABSOLUTE = /^https?:\/\/[^/?#@]+(?=[/?]|$)/i;

/**
 * Converts a request target to the form that a client sends to an origin server (RFC 9112, section 3.2.1). A client
 * that believes it talks to a proxy sends a whole URL (section 3.2.2), and this function drops its scheme and
 * authority. The authority would override the header Host, but this program decides nothing by either. A URL with a
 * user is returned unchanged.
 */
export function originForm(target: string, method?: string): string {
  if (target.startsWith("/")) return target;
  const origin = ABSOLUTE.exec(target)?.[0];
  if (origin === undefined) return target;
  const rest = target.slice(origin.length);
  if (rest === "" && method === "OPTIONS") return "*"; // section 3.2.4
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** Returns the raw path of a request target without its query: nothing is decoded, folded or resolved. */
export function rawPath(target: string): string {
  const origin = originForm(target);
  const query = origin.indexOf("?");
  return query === -1 ? origin : origin.slice(0, query);
}

/** Returns the raw query of a request target without its question mark; empty if the target has no query. */
export function rawQuery(target: string): string {
  const query = target.indexOf("?");
  return query === -1 ? "" : target.slice(query + 1);
}
