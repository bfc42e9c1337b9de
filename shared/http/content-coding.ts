import type { IncomingMessage } from "node:http";
import { AppError } from "../errors/app-error.ts";

/** The body's one content coding, in lower case; undefined where it has none (RFC 9110, section 8.4). */
export function contentCoding(req: IncomingMessage): string | undefined {
  const coding = req.headers["content-encoding"]?.trim().toLowerCase();
  return coding === undefined || coding === "" || coding === "identity" ? undefined : coding;
}

export function codingUnsupported(coding: string, detail: string): AppError {
  return new AppError("request.encoding_unsupported", {
    reason: `${detail}; it is ${coding}`,
    publicDetail: detail,
  });
}
