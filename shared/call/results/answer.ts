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
  if (answer.status === ACCEPTED) return AWAITED;
  const value = encodeAnswer(answer, bytesMax, at);
  return value === undefined ? GONE : { known: "kept", value };
}

/** A 2xx answer as it is stored. Undefined for another answer, and if its body is lost. */
export function encodeAnswer(answer: RunnerAnswer, bytesMax: number, at: number): Buffer | undefined {
  const { status, body = "" } = answer;
  if (!Number.isInteger(status) || status < 200 || status > 299) return undefined;
  const told = { status, contentType: usableContentType(answer.contentType), at, by: "answer" } as const;
  const tooLong = encodeResult({ ...told, kind: "too_long" });
  if (typeof body === "object" && "missing" in body) return body.missing === "gone" ? undefined : tooLong;
  const bytes =
    typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (bytes.length > bytesMax) return tooLong;
  return encodeResult({ ...told, kind: "answer", body: bytes });
}
