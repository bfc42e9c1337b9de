import { sha256, sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { contentDigest } from "../../shared/platform/crypto/message-signature.ts";
import { unreadable } from "../../shared/redis/unreadable.ts";
import type { HttpAnswer } from "./router.ts";

/*
 * What is stored of the answer to a call that succeeded. The call's hash has the status and the SHA-256 of the body for as
 * long as the key is remembered. The answer itself, its Content-Type, a line feed and its body, has a key of its own and
 * may be let go. Two answers need none, since they can be made again: the one without a body, and the 202 of a long call.
 */

const LINE_FEED = 0x0a;
const EMPTY = Buffer.alloc(0);
const EMPTY_SHA256 = sha256Hex(EMPTY);

/** The answer to the sender of a long call, which every repeat gets too. */
export function longCallAnswer(callId: string): HttpAnswer {
  const body = JSON.stringify({ status: "stored", call_id: callId });
  return { status: 202, contentType: "application/json", body: Buffer.from(body) };
}

/** What the key of the answer holds; undefined if the answer can be made again without it. */
export function encodeAnswer(callId: string, { contentType, body }: HttpAnswer): Buffer | undefined {
  if (body.length === 0 && contentType === undefined) return undefined;
  if (body.equals(longCallAnswer(callId).body)) return undefined;
  return Buffer.concat([Buffer.from(`${contentType ?? ""}\n`), body]);
}

/** The answer as a script reads it (remembered.lua). */
export type Remembered = readonly [
  status: Buffer | undefined,
  digest: Buffer | undefined,
  kept: Buffer | undefined,
];

/** The answer as it was, or without its body if that has been let go. */
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
