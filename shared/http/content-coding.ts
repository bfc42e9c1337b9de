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

/** The content codings that can be decoded (RFC 9110, section 8.4.1). */
export const CODINGS: readonly string[] = Object.keys(DECODERS);

/**
 * Decodes a body of one of the `CODINGS`, and stops at the limit: a small body may decode to a very large one. Throws
 * `request.too_large` and `request.encoding_broken`.
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

/** The body's content coding in lower case, if it has one (RFC 9110, section 8.4). */
export function contentCoding(req: IncomingMessage): string | undefined {
  const coding = req.headers["content-encoding"]?.trim().toLowerCase();
  return coding === undefined || coding === "" || coding === "identity" ? undefined : coding;
}

/** Throws `request.encoding_unsupported` for a body that is encoded. Its reader takes the bytes as they are, and knows of no coding. */
export function assertNotEncoded(req: IncomingMessage): void {
  const coding = contentCoding(req);
  if (coding !== undefined) throw codingUnsupported(coding, "send the body without Content-Encoding");
}

export function codingUnsupported(coding: string, detail: string): AppError {
  return new AppError("request.encoding_unsupported", {
    reason: `${detail}; found ${coding}`,
    publicDetail: detail,
  });
}
