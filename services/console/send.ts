import type { ServerResponse } from "node:http";
import { bytesOf, type File, type Operation, statusOf } from "../../shared/console/contract/operation.ts";

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

/** Sends what an operation has answered. A large answer keeps its place until its reader has it, or is cut off. */
export async function sendAnswer(
  res: ServerResponse,
  operation: Operation,
  answered: unknown,
  { pace, leave }: Sending,
): Promise<void> {
  if (operation.stream !== undefined) return leave(); // it goes on by itself
  const content = await contentOf(operation, answered);
  if (content !== undefined && content.bytes.length > PIECE_BYTES && !res.destroyed) res.once("close", leave);
  else leave();
  keepToPace(res, pace);
  res.writeHead(statusOf(operation), {
    ...headersOf(operation, answered),
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

function headersOf({ location, file }: Operation, answered: unknown): Record<string, string> {
  // A stranger has written the bytes of a file: no browser is to show them.
  if (file !== undefined)
    return { "Content-Disposition": `attachment; filename="${(answered as File).name}"` };
  const members = answered as Readonly<Record<string, string>>;
  if (location === undefined) return {};
  return { Location: location.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(members[name])) };
}

async function contentOf(
  { answer, file }: Operation,
  answered: unknown,
): Promise<{ bytes: Uint8Array; type: string } | undefined> {
  if (file !== undefined) return { bytes: await bytesOf(answered as File), type: file };
  if (answer === undefined) return undefined;
  return { bytes: Buffer.from(JSON.stringify(answered)), type: "application/json" };
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
