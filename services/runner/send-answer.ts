import { type ServerResponse, STATUS_CODES } from "node:http";
import { COMMON_HEADERS } from "../../shared/http/problem.ts";
import type { HttpAnswer } from "./router.ts";

/** Sends an answer as it stands; to a caller that went away, nothing. */
export function sendAnswer(res: ServerResponse, answer: HttpAnswer, { replayed = false } = {}): void {
  if (res.destroyed) return;
  const { status, contentType, body } = answer;
  res.writeHead(status, STATUS_CODES[status], {
    ...COMMON_HEADERS,
    ...(contentType !== undefined && { "Content-Type": contentType }),
    ...(hasBody(status) && { "Content-Length": body.length }),
    ...(replayed && { "Idempotent-Replayed": "true" }),
  });
  res.end(hasBody(status) ? body : undefined);
}

export function sendJson(res: ServerResponse, value: unknown, status = 200): void {
  const body = Buffer.from(JSON.stringify(value));
  sendAnswer(res, { status, contentType: "application/json", body });
}

/** RFC 9110, section 6.4.1. */
function hasBody(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}
