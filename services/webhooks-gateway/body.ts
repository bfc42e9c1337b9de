import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, type ZlibOptions } from "node:zlib";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import { codingUnsupported, contentCoding } from "../../shared/http/content-coding.ts";
import { tooLarge } from "../../shared/http/read-body.ts";

type Decode = (bytes: Buffer, options: ZlibOptions) => Promise<Buffer>;

const DECODERS: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip) as Decode,
  "x-gzip": promisify(gunzip) as Decode,
  deflate: promisify(inflate) as Decode,
  br: promisify(brotliDecompress) as Decode,
};

/** The request's one content coding, or undefined where it has none. Throws `request.encoding_unsupported`. */
export function readEncoding(req: IncomingMessage, endpoint: EndpointToml): string | undefined {
  const coding = contentCoding(req);
  if (coding === undefined) return undefined;
  if (endpoint.encoded_bodies !== "decode")
    throw codingUnsupported(coding, "this endpoint takes no Content-Encoding");
  if (Object.hasOwn(DECODERS, coding)) return coding;
  throw codingUnsupported(coding, `Content-Encoding must be one of ${Object.keys(DECODERS).join(", ")}`);
}

/** The decoded bytes, never more than the limit: a small body may stand for a very large one. */
export async function decodeBody(bytes: Buffer, encoding: string, limitBytes: number): Promise<Buffer> {
  const decode = DECODERS[encoding] as Decode;
  try {
    return await decode(bytes, { maxOutputLength: Math.max(limitBytes, 1) });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(limitBytes);
    const detail = `the body is not ${encoding}`;
    throw new AppError("request.encoding_broken", { reason: messageOf(cause), publicDetail: detail, cause });
  }
}
