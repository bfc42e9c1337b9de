import { encodeResult, usableContentType } from "./result.ts";

/** A runner's answer to a call that it accepted. */
export type RunnerAnswer = {
  status: number;
  contentType?: string | undefined;
  /** "too long" if the body exceeds the size limit, and "gone" if it is no longer known. */
  body?: Uint8Array | string | { missing: "too long" | "gone" } | undefined;
};

/** State of the result for the record of a call that its runner has accepted. With `kept`, also the result to store. */
export type ResultMark =
  | { known: "kept"; value: Buffer }
  /** The runner answered 202: it delivers the result later. */
  | { known: "awaited" }
  | { known: "gone" };

export const GONE: ResultMark = { known: "gone" };
export const AWAITED: ResultMark = { known: "awaited" };

/** HTTP status of an answer after which the runner delivers the result later. */
export const ACCEPTED = 202;

/** Decides which part of an answer is kept. Only a 2xx answer other than 202 is a result. */
export function markOf(answer: RunnerAnswer, bytesMax: number, at: number): ResultMark {
  if (answer.status === ACCEPTED) return AWAITED;
  const value = encodeAnswer(answer, bytesMax, at);
  return value === undefined ? GONE : { known: "kept", value };
}

/** Encodes a 2xx answer for storage. Returns undefined for any other status, and for an answer whose body is lost. */
export function encodeAnswer(answer: RunnerAnswer, bytesMax: number, at: number): Buffer | undefined {
  const { status, body = "" } = answer;
  if (!Number.isInteger(status) || status < 200 || status > 299) return undefined;
  const common = { status, contentType: usableContentType(answer.contentType), at, by: "answer" } as const;
  const tooLong = encodeResult({ ...common, kind: "too_long" });
  if (typeof body === "object" && "missing" in body) return body.missing === "gone" ? undefined : tooLong;
  const bytes =
    typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (bytes.length > bytesMax) return tooLong;
  return encodeResult({ ...common, kind: "answer", body: bytes });
}
