import { sha256Hex } from "../platform/crypto/compare.ts";
import { COMMON_HEADERS, sendBody } from "./answer.ts";
import type { Route } from "./router.ts";

/** Time in seconds for which a client may use a document without revalidating it. */
const MAX_AGE_SECS = 300;

/**
 * Creates the GET route of a public document that depends only on the configuration. The first request makes the
 * document.
 */
export function documentRoute(path: string, contentType: string, make: () => string): Route {
  let made: { body: Buffer; headers: Readonly<Record<string, string>> } | undefined;

  function document() {
    const body = Buffer.from(make());
    const ETag = `"${sha256Hex(body).slice(0, 32)}"`;
    return { body, headers: { "Cache-Control": `public, max-age=${MAX_AGE_SECS}`, ETag } };
  }

  return {
    method: "GET",
    path,
    serve(req, res) {
      made ??= document();
      const { body, headers } = made;
      if (!isKnown(req.headers["if-none-match"], headers["ETag"]))
        return sendBody(res, contentType, body, headers);
      res.writeHead(304, { ...COMMON_HEADERS, ...headers }).end();
    },
  };
}

/** Returns whether the client already has this document (RFC 9110, section 13.1.2). */
function isKnown(ifNoneMatch: string | undefined, etag: string | undefined): boolean {
  const tags = ifNoneMatch?.split(",").map((each) => each.trim().replace(/^W\//, "")) ?? [];
  return tags.some((tag) => tag === "*" || tag === etag);
}
