import { encodeResult, usableContentType } from "./result.ts";

/** What a runner answered to a call that it took. */
export type RunnerAnswer = {
  status: number;
  contentType?: string | undefined;
  /** "too long" if it has more bytes than are kept, and "gone" if nobody can tell it any more. */
  body?: Uint8Array | string | { missing: "too long" | "gone" } | undefined;
};

/** What the record of a call that ends well says of its result, and what is stored of it. */
export type ResultMark =
  | { known: "kept"; value: Buffer }
  /** The runner answered 202: it delivers the result later. */
  | { known: "awaited" }
  | { known: "gone" };

export const GONE: ResultMark = { known: "gone" };
export const AWAITED: ResultMark = { known: "awaited" };

/** The status of a runner that delivers the result later. */
export const ACCEPTED = 202;

/** What is kept of an answer. A 202 is no result, and one without a 2xx is none either. */
export function markOf(answer: RunnerAnswer, bytesMax: number, at: number): ResultMark {
  const { status, body = "" } = answer;
  if (status === ACCEPTED) return AWAITED;
  if (!Number.isInteger(status) || status < 200 || status > 299) return GONE;
  const told = { status, contentType: usableContentType(answer.contentType), at, by: "answer" } as const;
  const tooLong: ResultMark = { known: "kept", value: encodeResult({ ...told, kind: "too_long" }) };
  if (typeof body === "object" && "missing" in body) return body.missing === "gone" ? GONE : tooLong;
  const bytes =
    typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (bytes.length > bytesMax) return tooLong;
  return { known: "kept", value: encodeResult({ ...told, kind: "answer", body: bytes }) };
}
