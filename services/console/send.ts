import type { ServerResponse } from "node:http";
import { bytesOf, type File, type Operation, statusOf } from "../../shared/console/contract/operation.ts";

/** Minimum pace of a reader: it must read this many bytes in each span, unless fewer are left. */
export type Pace = { spanMs: number; bytesMin: number };

/** 64 KiB per second. The span is longer than a short network failure. */
export const PACE: Pace = { spanMs: 30_000, bytesMin: 30 * 64 * 1024 };

/** An answer is written in pieces of this size, so that the progress of the reader is visible. */
const PIECE_BYTES = 64 * 1024;

type SendOptions = {
  pace: Pace;
  /**
   * Releases the request's concurrency slot. Called at once for a small answer. Otherwise called when the answer is
   * sent or the client disconnects.
   */
  releaseSlot: () => void;
};

/**
 * Sends the answer of an operation. A large answer holds its concurrency slot until its reader has it or is
 * disconnected.
 */
export async function sendAnswer(
  res: ServerResponse,
  operation: Operation,
  answered: unknown,
  { pace, releaseSlot }: SendOptions,
): Promise<void> {
  if (operation.stream !== undefined) return releaseSlot(); // a stream has its own lifetime
  const content = await contentOf(operation, answered);
  if (content !== undefined && content.bytes.length > PIECE_BYTES && !res.destroyed)
    res.once("close", releaseSlot);
  else releaseSlot();
  enforcePace(res, pace);
  res.writeHead(statusOf(operation), {
    ...headersOf(operation, answered),
    ...(content && { "Content-Type": content.type, "Content-Length": content.bytes.length }),
  });
  if (content === undefined) res.end();
  else writeInPieces(res, content.bytes);
}

/**
 * Closes the connection if its reader is too slow while this answer is sent or waits behind other answers. Otherwise a
 * slow reader could keep an answer in memory forever. All answers on a connection together take at most two spans
 * longer than they would at the minimum pace.
 */
export function enforcePace(res: ServerResponse, { spanMs, bytesMin }: Pace): void {
  if (res.destroyed) return;
  const { socket } = res.req;
  let before = socket.bytesWritten;
  const timer = setInterval(() => {
    const now = socket.bytesWritten;
    if (now - before < bytesMin) socket.destroy(); // not `res.destroy()`: an answer that waits behind others has no socket yet
    before = now;
  }, spanMs);
  res.once("close", () => clearInterval(timer));
}

function headersOf({ location, file }: Operation, answered: unknown): Record<string, string> {
  // Browsers must not show a file, because a stranger may have written it.
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

/** Writes each piece once the operating system has accepted the previous one. */
function writeInPieces(res: ServerResponse, bytes: Uint8Array): void {
  const rest = bytes.subarray(PIECE_BYTES);
  const piece = bytes.subarray(0, PIECE_BYTES);
  if (rest.length === 0) res.end(piece);
  else
    res.write(piece, (error) => {
      if (!error) writeInPieces(res, rest);
    });
}
