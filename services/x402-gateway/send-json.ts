import type { ServerResponse } from "node:http";
import { COMMON_HEADERS } from "../../shared/http/problem.ts";
import { CORS_HEADERS } from "./cors.ts";

export function sendJson(res: ServerResponse, status: number, value: unknown): void {
  const body = JSON.stringify(value);
  res.writeHead(status, {
    ...COMMON_HEADERS,
    ...CORS_HEADERS,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
  });
  res.end(body);
}
