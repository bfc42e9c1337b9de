import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, type ZlibOptions } from "node:zlib";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { tooLarge } from "./body.ts";

type Decode = (bytes: Buffer, options: ZlibOptions) => Promise<Buffer>;

const DECODERS: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip) as Decode,
  "x-gzip": promisify(gunzip) as Decode,
  deflate: promisify(inflate) as Decode,
  br: promisify(brotliDecompress) as Decode,
};

/** Content codings that can be decoded (RFC 9110, section 8.4.1). */
export const CODINGS: readonly string[] = Object.keys(DECODERS);

/**
 * Decodes a body with one of the `CODINGS`. It stops at the limit, because a small body may decode to a very large one.
 * Throws `request.too_large` and `request.encoding_broken`.
 */
export async function decodeBody(bytes: Buffer, coding: string, bytesMax: number): Promise<Buffer> {
  const decoder = DECODERS[coding] as Decode;
  try {
    return await decoder(bytes, { maxOutputLength: Math.max(bytesMax, 1) });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(bytesMax);
    const publicDetail = `the body is not valid ${coding}`;
    throw new AppError("request.encoding_broken", { reason: messageOf(cause), publicDetail, cause });
  }
}

/** Returns the body's content coding in lower case; undefined if the body is not encoded (RFC 9110, section 8.4). */
export function contentCoding(req: IncomingMessage): string | undefined {
  const coding = req.headers["content-encoding"]?.trim().toLowerCase();
  return coding === undefined || coding === "" || coding === "identity" ? undefined : coding;
}

/** Throws `request.encoding_unsupported` for an encoded body. Readers that do not decode bodies call it. */
export function assertNotEncoded(req: IncomingMessage): void {
  const coding = contentCoding(req);
  if (coding !== undefined) throw codingUnsupported(coding, [], "send the body without Content-Encoding");
}

/**
 * Creates the refusal of a content coding. The answer's header Accept-Encoding names the accepted ones (RFC 9110,
 * section 15.5.16).
 */
export function codingUnsupported(coding: string, accepted: readonly string[], detail: string): AppError {
  return new AppError("request.encoding_unsupported", {
    reason: `${detail}; found ${coding}`,
    publicDetail: detail,
    headers: { "Accept-Encoding": [...accepted, "identity"].join(", ") },
  });
}
