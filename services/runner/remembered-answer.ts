import { sha256, sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { contentDigest } from "../../shared/platform/crypto/message-signature.ts";
import { unreadable } from "../../shared/redis/unreadable.ts";
import type { HttpAnswer } from "./router.ts";

/*
 * Storage of the answer to a successful call. The Redis hash of the call has the status of the answer and the SHA-256 of its
 * body, for as long as the call is remembered. The Content-Type and the body, separated by a line feed, are in a string of
 * their own, which may be evicted earlier. Two kinds of answers are not stored there, because they can be rebuilt: an answer without
 * a body, and the 202 of a long call.
 */

const LINE_FEED = 0x0a;
const EMPTY = Buffer.alloc(0);
const EMPTY_SHA256 = sha256Hex(EMPTY);

/** Builds the answer that the sender of a long call gets, also if it repeats its request. */
export function longCallAnswer(callId: string): HttpAnswer {
  const body = JSON.stringify({ status: "stored", call_id: callId });
  return { status: 202, contentType: "application/json", body: Buffer.from(body) };
}

/** Encodes the answer for storage; undefined if the answer need not be stored, because it can be rebuilt. */
export function encodeAnswer(callId: string, { contentType, body }: HttpAnswer): Buffer | undefined {
  if (body.length === 0 && contentType === undefined) return undefined;
  if (body.equals(longCallAnswer(callId).body)) return undefined;
  return Buffer.concat([Buffer.from(`${contentType ?? ""}\n`), body]);
}

/** A remembered answer as scripts return it (remembered.lua). */
export type Remembered = readonly [
  status: Buffer | undefined,
  digest: Buffer | undefined,
  kept: Buffer | undefined,
];

/** Restores an answer. If its body was evicted, the answer has the digest of the body instead (`forgotten`). */
export function toAnswer(callId: string, [statusText, digest, kept]: Remembered): HttpAnswer {
  const status = Number(statusText);
  if (kept !== undefined) {
    const end = kept.indexOf(LINE_FEED);
    return { status, contentType: kept.toString("utf8", 0, end) || undefined, body: kept.subarray(end + 1) };
  }
  if (digest === undefined) throw unreadable(`the answer of ${callId}`);
  const stored = longCallAnswer(callId);
  if (digest.equals(sha256(stored.body))) return { ...stored, status };
  const sha256OfBody = digest.toString("hex");
  const bare = { status, contentType: undefined, body: EMPTY };
  return sha256OfBody === EMPTY_SHA256 ? bare : { ...bare, forgotten: contentDigest(sha256OfBody) };
}
