import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../errors/app-error.ts";
import { brokenOff, onceBrokenOff } from "./broken-off.ts";
import { declaredBytes } from "./unread-body.ts";

const NOTHING = Buffer.alloc(0);

/**
 * The request's bytes as they came, of any type and in any framing; no body is an empty buffer. Refuses with
 * `request.too_large` from the declared length where there is one, else as soon as the limit is passed, and reads no
 * further. Rejects at once with the reason when the request is broken off, whatever arrives of it later.
 */
export function readBody(req: IncomingMessage, res: ServerResponse, limitBytes: number): Promise<Buffer> {
  const reason = brokenOff(req);
  if (reason !== undefined) return Promise.reject(reason);
  const declared = declaredBytes(req);
  if (declared === 0) return Promise.resolve(NOTHING);
  if (Number.isFinite(declared) && declared > limitBytes) return Promise.reject(tooLarge(limitBytes));
  if (req.headers.expect !== undefined) res.writeContinue();
  return collect(req, limitBytes);
}

function collect(req: IncomingMessage, limitBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const stop = (reason: AppError): void => {
      req.removeAllListeners("data");
      req.pause();
      reject(reason);
    };
    onceBrokenOff(req, stop);
    req.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limitBytes) {
        stop(tooLarge(limitBytes));
        return;
      }
      chunks.push(chunk);
    });
    req.on("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes)));
    req.on("error", (cause) => reject(clientGone(cause)));
    req.on("close", () => {
      if (!req.complete) reject(clientGone());
    });
  });
}

export function tooLarge(limitBytes: number): AppError {
  const detail = `the body is over ${limitBytes} bytes`;
  return AppError.public("request.too_large", detail);
}

function clientGone(cause?: unknown): AppError {
  return new AppError("request.malformed", {
    reason: "the client went away before its body was whole",
    cause,
  });
}
