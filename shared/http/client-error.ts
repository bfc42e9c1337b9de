import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { CODES, type ErrorCode } from "../errors/codes.ts";
import { problemBody } from "./problem.ts";

/** Answers what Node's parser refused before any handler saw it, as every other refusal: with a problem document. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const code = codeOf(error);
  const { status, title } = CODES[code];
  const body = problemBody(code, title);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Connection: close",
    "Cache-Control: no-store",
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}

function codeOf(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") return "request.timed_out";
  if (error.code === "HPE_HEADER_OVERFLOW") return "request.headers_too_large";
  return "request.malformed";
}
