import { sha256, sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { contentDigest } from "../../shared/platform/crypto/message-signature.ts";
import { unreadable } from "../../shared/redis/unreadable.ts";
import type { HttpAnswer } from "./router.ts";

/*
 * Storage of the answer to a successful call. The call's hash has the status and the SHA-256 of the body for as long as the
 * key is remembered. The answer itself (its Content-Type, a line feed and its body) has its own key and may be evicted. Two
 * kinds of answers are never stored, because they can be rebuilt: an answer without a body, and the 202 of a long call.
 */

const LINE_FEED = 0x0a;
const EMPTY = Buffer.alloc(0);
const EMPTY_SHA256 = sha256Hex(EMPTY);

/** The answer to the sender of a long call. Every repeat gets it too. */
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

/** The answer as a script returns it (remembered.lua). */
export type Remembered = readonly [
  status: Buffer | undefined,
  digest: Buffer | undefined,
  kept: Buffer | undefined,
];

/** Restores the answer, without its body if that was evicted. */
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
