import type { ServerResponse } from "node:http";
import type { Answer } from "./route.ts";

/** Least that a reader must take of an answer in each span, unless less is left. */
export type Pace = { spanMs: number; bytesMin: number };

/** 64 KiB a second. The span is long enough for a network that comes back. */
export const PACE: Pace = { spanMs: 30_000, bytesMin: 30 * 64 * 1024 };

/** An answer is written in pieces of this size, so that it shows how much of it was taken. */
const PIECE_BYTES = 64 * 1024;

type Sending = {
  pace: Pace;
  /** Called once the answer holds one piece of memory at most. */
  leave: () => void;
};

/** Sends an answer. A large one keeps its place until its reader has it, or is cut off. */
export function sendAnswer(res: ServerResponse, answer: Answer, { pace, leave }: Sending): void {
  if ("stream" in answer) {
    leave();
    answer.stream(res);
    return;
  }
  const content = contentOf(answer);
  if (content !== undefined && content.bytes.length > PIECE_BYTES && !res.destroyed) res.once("close", leave);
  else leave();
  keepToPace(res, pace);
  res.writeHead(answer.status, {
    ...answer.headers,
    ...(content && { "Content-Type": content.type, "Content-Length": content.bytes.length }),
  });
  if (content === undefined) res.end();
  else endInPieces(res, content.bytes);
}

/**
 * Cuts the connection if its reader takes too little while this answer is sent, or waits behind another one. So a reader holds an answer,
 * with those before it on the connection, for as long as their size takes at the least rate, and for two spans more at most, whether it
 * is silent or takes a byte now and then.
 */
export function keepToPace(res: ServerResponse, { spanMs, bytesMin }: Pace): void {
  if (res.destroyed) return;
  const { socket } = res.req;
  let before = socket.bytesWritten;
  const timer = setInterval(() => {
    const now = socket.bytesWritten;
    if (now - before < bytesMin) socket.destroy(); // an answer that waits has no socket to destroy
    before = now;
  }, spanMs);
  res.once("close", () => clearInterval(timer));
}

function contentOf(
  answer: Exclude<Answer, { stream: unknown }>,
): { bytes: Uint8Array; type: string } | undefined {
  if ("json" in answer) return { bytes: Buffer.from(JSON.stringify(answer.json)), type: "application/json" };
  return "bytes" in answer ? { bytes: answer.bytes, type: answer.contentType } : undefined;
}

/** Writes each piece once the system has taken the one before. */
function endInPieces(res: ServerResponse, bytes: Uint8Array): void {
  const rest = bytes.subarray(PIECE_BYTES);
  const piece = bytes.subarray(0, PIECE_BYTES);
  if (rest.length === 0) res.end(piece);
  else
    res.write(piece, (error) => {
      if (!error) endInPieces(res, rest);
    });
}
