import { readdirSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { dirname, extname, join, relative, sep } from "node:path";
import { gzipSync } from "node:zlib";
import { methodNotAllowed } from "../../shared/http/router.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { isAbsent } from "../../shared/platform/text/read-text.ts";
import { PAGE_POLICY } from "./headers.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".webmanifest": "application/manifest+json",
};

type File = { bytes: Buffer; zipped: Buffer | undefined; type: string; isHashed: boolean };

/**
 * Answers the request if its path is one of the page's files, and returns whether it did. Throws
 * `request.method_not_allowed` for methods other than GET and HEAD.
 */
export type ServePage = (req: IncomingMessage, res: ServerResponse, path: string) => boolean;

/** Folder of the built page. It is found by the package's own name, both from the sources and from dist/. */
export function builtPage(): string {
  const root = dirname(createRequire(import.meta.url).resolve("postern/package.json"));
  return join(root, "dist/services/console-page");
}

/**
 * Serves the files of the page. They are read once at the start, so no request can name another file on disk. The
 * bundler puts a digest in the names of the files in `assets`, so browsers may cache them.
 */
export function createServePage(dir: string): ServePage {
  const files = new Map(isAbsent(dir) ? [] : readAll(dir));
  const index = files.get("/index.html");
  if (index !== undefined) files.set("/", index);

  return function servePage(req, res, path) {
    const file = files.get(path);
    if (file === undefined) {
      if (path !== "/") return false;
      throw AppError.public(
        "request.not_found",
        "the page is not built; the API is at /api/v1, and its description at /openapi.json",
      );
    }
    if (req.method !== "GET" && req.method !== "HEAD") throw methodNotAllowed(req, res, ["GET", "HEAD"]);
    const isZipped = file.zipped !== undefined && /\bgzip\b/.test(String(req.headers["accept-encoding"]));
    const body = (isZipped && file.zipped) || file.bytes;
    res.setHeader("Content-Security-Policy", PAGE_POLICY);
    res.setHeader("Vary", "Accept-Encoding");
    if (file.isHashed) res.setHeader("Cache-Control", "public, max-age=31536000, immutable");
    if (isZipped) res.setHeader("Content-Encoding", "gzip");
    res.writeHead(200, { "Content-Type": file.type, "Content-Length": body.length });
    res.end(body);
    return true;
  };
}

function readAll(dir: string): [path: string, file: File][] {
  const names = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return names.flatMap(({ parentPath, name }): [string, File][] => {
    const type = TYPES[extname(name)];
    if (type === undefined) return [];
    const path = `/${relative(dir, join(parentPath, name)).split(sep).join("/")}`;
    const bytes = readFileSync(join(parentPath, name));
    const zipped = /^(?:text|image\/svg|application)/.test(type) ? gzipSync(bytes, { level: 9 }) : undefined;
    return [[path, { bytes, zipped, type, isHashed: path.startsWith("/assets/") }]];
  });
}
