import { parseJson } from "../../platform/text/parse-json.ts";
import { shareOf } from "../../redis/partition.ts";
import { unreadable } from "../../redis/unreadable.ts";
import { type CallHead, JobCall, storedBytes, WEBHOOK_PATH } from "../job-call.ts";
import { decodeResult, type StoredResult } from "../results/result.ts";

/*
 * A delivered webhook that is kept whole, so that operators can read it and run it again. `keep_delivered` of its endpoint
 * sets the retention time. The stored value has four parts:
 *
 * - A line with the path of the endpoint.
 * - A line with the size of the answer in bytes.
 * - The runner's answer, in the format of a stored result; empty if it is unknown.
 * - The call, as it was stored in its queue.
 */

/** A delivered webhook. `call` is undefined if this release cannot parse the stored call. */
export type Kept = { answer: StoredResult | undefined; call: JobCall | undefined };

/**
 * Encodes the settings for the script that ends a call and keeps it (keep.lua). They are the retention time in ms, one
 * partition's share of the endpoint's size limit, and the first three parts of the stored value. Returns undefined if the
 * call must not be kept.
 */
export function encodeKeepArgs(
  call: CallHead,
  answer: Buffer = Buffer.alloc(0),
  partitions = 1,
): Buffer | undefined {
  const { origin, metadata, keep_delivered: keeps } = call;
  const path = metadata[WEBHOOK_PATH];
  if (keeps === undefined || path === undefined || origin !== "webhook") return undefined;
  const bytesMax = shareOf(keeps.bytes_max, partitions);
  if (storedBytes(call) > bytesMax) return undefined;
  const words = `${keeps.secs * 1000} ${bytesMax} ${path}\n${answer.length}\n`;
  return Buffer.concat([Buffer.from(words), answer]);
}

const HEAD = /^[^\n]*\n(\d+)\n/;
/** Upper bound for the length of the first two lines. Every path is shorter. */
const HEAD_BYTES_MAX = 16_384;

/** Decodes a kept webhook. Throws `record.unreadable`. */
export function decodeKept(stored: Buffer): Kept {
  const [head, bytes] = HEAD.exec(stored.toString("latin1", 0, HEAD_BYTES_MAX)) ?? [];
  if (head === undefined) throw unreadable("the kept call");
  const end = head.length + Number(bytes);
  const answer = stored.subarray(head.length, end);
  return {
    answer: answer.length === 0 ? undefined : decodeResult(answer),
    call: JobCall.safeParse(parseJson(stored.toString("utf8", end))).data,
  };
}
