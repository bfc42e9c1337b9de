import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";

/**
 * Every value of a header, in order; `name` in lower case. `req.headers` joins or drops repeated headers, and a credential
 * that came twice must be seen as two.
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

/** Every value of every header, by lower-case name; Node's own `req.headers` joins or drops repeated ones. */
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
 * The value of a header that must come exactly once; `name` in lower case. If it came twice, two programs on the way could
 * each trust a different one.
 */
export function onlyHeaderValue(
  req: IncomingMessage,
  name: string,
): { value: string } | { problem: "missing" | "repeated" } {
  const [value, ...more] = headerValues(req, name);
  if (value === undefined) return { problem: "missing" };
  return more.length > 0 ? { problem: "repeated" } : { value };
}

/** The bytes of a header value: Node decodes them as latin1. */
export function headerBytes(value: string): Buffer {
  return Buffer.from(value, "latin1");
}

/** The text of a header value that Node decoded as latin1: UTF-8 if its bytes are that. */
export function headerText(value: string): string {
  const bytes = headerBytes(value);
  return isUtf8(bytes) ? bytes.toString("utf8") : value;
}

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The request's W3C trace context, if it has a well-formed one. */
export function traceparentOf(req: IncomingMessage): string | undefined {
  const value = req.headers["traceparent"];
  return typeof value === "string" && TRACEPARENT.test(value) ? value : undefined;
}

/** Retry-After (RFC 9110, section 10.2.3), in milliseconds: seconds, or an HTTP date. */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const text = value.trim();
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

const ABSOLUTE = /^https?:\/\/[^/?#@]+(?=[/?]|$)/i;

/**
 * A request target as a client sends it to the server itself (RFC 9112, section 3.2.1). A client of proxies sends a URL
 * (section 3.2.2), whose authority counts over Host; nothing here depends on either. A URL with a user in it is left as it is.
 */
export function originForm(target: string, method?: string): string {
  if (target.startsWith("/")) return target;
  const origin = ABSOLUTE.exec(target)?.[0];
  if (origin === undefined) return target;
  const rest = target.slice(origin.length);
  if (rest === "" && method === "OPTIONS") return "*"; // section 3.2.4
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** The path of a request target as it came, without its query: nothing is decoded, folded or resolved. */
export function rawPath(target: string): string {
  const origin = originForm(target);
  const query = origin.indexOf("?");
  return query === -1 ? origin : origin.slice(0, query);
}

/** The query of a request target as it came, without its question mark; empty if there is none. */
export function rawQuery(target: string): string {
  const query = target.indexOf("?");
  return query === -1 ? "" : target.slice(query + 1);
}
