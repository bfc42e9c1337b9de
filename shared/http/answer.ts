import type { ServerResponse } from "node:http";

/** Headers of every answer: no caching, no content sniffing. */
export const COMMON_HEADERS = { "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff" } as const;

/** Answers 200 with this body. */
export function sendBody(
  res: ServerResponse,
  contentType: string,
  body: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  const length = Buffer.byteLength(body);
  res.writeHead(200, {
    ...COMMON_HEADERS,
    "Content-Type": contentType,
    "Content-Length": length,
    ...headers,
  });
  res.end(body);
}
