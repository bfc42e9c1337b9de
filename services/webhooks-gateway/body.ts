import type { IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, type ZlibOptions } from "node:zlib";
import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import { codingUnsupported, contentCoding, readBody, tooLarge } from "../../shared/http/body.ts";
import type { BodyProof } from "./credential.ts";

type Decode = (bytes: Buffer, options: ZlibOptions) => Promise<Buffer>;

const DECODERS: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip) as Decode,
  "x-gzip": promisify(gunzip) as Decode,
  deflate: promisify(inflate) as Decode,
  br: promisify(brotliDecompress) as Decode,
};

/**
 * Reads the body and checks what of the credential only the body proves, over the bytes as received or as decoded. Throws
 * `request.encoding_unsupported`, `request.encoding_broken`, `request.too_large` and what the proof throws.
 */
export async function readProvenBody(
  req: IncomingMessage,
  res: ServerResponse,
  endpoint: { config: EndpointToml; bodyBytesMax: number },
  proof: BodyProof | undefined,
): Promise<Buffer> {
  const { config, bodyBytesMax } = endpoint;
  const coding = acceptedCoding(req, config);
  const received = await readBody(req, res, bodyBytesMax);
  if (proof?.covers === "received") proof.check(received);
  const body = coding === undefined ? received : await decode(received, coding, bodyBytesMax);
  if (proof?.covers === "decoded") proof.check(body);
  return body;
}

function acceptedCoding(req: IncomingMessage, { encoded_bodies }: EndpointToml): string | undefined {
  const coding = contentCoding(req);
  if (coding === undefined) return undefined;
  if (encoded_bodies !== "decode") throw codingUnsupported(coding, "this endpoint takes no Content-Encoding");
  if (Object.hasOwn(DECODERS, coding)) return coding;
  throw codingUnsupported(coding, `Content-Encoding must be one of ${Object.keys(DECODERS).join(", ")}`);
}

/** Stops at the limit: a small body may decode to a very large one. */
async function decode(bytes: Buffer, coding: string, bytesMax: number): Promise<Buffer> {
  const decoder = DECODERS[coding] as Decode;
  try {
    return await decoder(bytes, { maxOutputLength: Math.max(bytesMax, 1) });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(bytesMax);
    const publicDetail = `the body is not ${coding}`;
    throw new AppError("request.encoding_broken", { reason: messageOf(cause), publicDetail, cause });
  }
}
