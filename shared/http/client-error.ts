import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { AppError } from "../errors/app-error.ts";
import { CODES, type ErrorCode } from "../errors/codes.ts";
import { breakOff } from "./broken-off.ts";
import type { Exchanges } from "./exchanges.ts";
import { endAndLinger, lingerOnClose } from "./linger.ts";
import { problemBody } from "./problem.ts";

/**
 * Answers what Node's parser refused or timed out, as every other refusal: with a problem document, after the answers
 * that are still owed on the connection, which then ends. A request whose handler has it already is broken off and
 * answered by that handler: what a sender is told here is never accepted afterwards.
 */
export function createAnswerClientError(exchanges: Exchanges) {
  const refused = new WeakSet<Duplex>();

  return function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (error.code === "ECONNRESET" || socket.destroyed) {
      socket.destroy();
      return;
    }
    if (refused.has(socket)) return; // bytes that were on their way
    refused.add(socket);
    void refuse(exchanges, socket, codeOf(error));
  };
}

async function refuse(exchanges: Exchanges, socket: Duplex, code: ErrorCode): Promise<void> {
  lingerOnClose(socket);
  const unfinished = exchanges.unfinished(socket);
  if (unfinished !== undefined) {
    const { title } = CODES[code];
    breakOff(unfinished, new AppError(code, { reason: title.toLowerCase(), publicDetail: title }));
  }
  socket.pause();
  await exchanges.answered(socket);
  endAndLinger(socket, unfinished === undefined && socket.writable ? problemAnswer(code) : undefined);
}

function problemAnswer(code: ErrorCode): string {
  const { status, title } = CODES[code];
  const body = problemBody(code, title);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Connection: close",
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

function codeOf(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") return "request.timed_out";
  if (error.code === "HPE_HEADER_OVERFLOW") return "request.headers_too_large";
  return "request.malformed";
}
