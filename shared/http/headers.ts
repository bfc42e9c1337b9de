import type { IncomingMessage } from "node:http";

/**
 * Every value of a header, in order. Node joins or drops repeated headers in `req.headers`; a credential that came twice
 * must be seen as two. `name` in lower case.
 */
export function headerValues(req: IncomingMessage, name: string): string[] {
  const values: string[] = [];
  const { rawHeaders } = req;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const key = rawHeaders[i] as string;
    if (key.length === name.length && key.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values;
}

/**
 * The one value of a header that must come exactly once: two programs on the way might each trust another one of several.
 * `name` in lower case.
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

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The request's W3C trace context, if it has a well-formed one. */
export function traceparentOf(req: IncomingMessage): string | undefined {
  const value = req.headers["traceparent"];
  return typeof value === "string" && TRACEPARENT.test(value) ? value : undefined;
}
