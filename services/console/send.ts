import type { ServerResponse } from "node:http";
import { bytesOf, type File, type Operation, statusOf } from "../../shared/console/contract/operation.ts";

/** Minimum pace at which a client must read an answer: `bytesMin` bytes in each `spanMs`, unless fewer are left. */
export type Pace = { spanMs: number; bytesMin: number };

/** 64 KiB per second. The span is so long that a short network failure does not end the answer. */
export const PACE: Pace = { spanMs: 30_000, bytesMin: 30 * 64 * 1024 };

/** An answer is written in pieces of this size, so that `enforcePace` can see how much of it the client has read. */
const PIECE_BYTES = 64 * 1024;

type SendOptions = {
  pace: Pace;
  /**
   * Releases the slot that the request occupies in the limit on concurrent requests. Called at once for a small
   * answer. For a large one, called when the answer is sent or the client disconnects.
   */
  releaseSlot: () => void;
};

/**
 * Sends the answer of an operation. A large answer stays in memory until it is sent or the client disconnects. Until
 * then, the request occupies its concurrency slot.
 */
export async function sendAnswer(
  res: ServerResponse,
  operation: Operation,
  answered: unknown,
  { pace, releaseSlot }: SendOptions,
): Promise<void> {
  if (operation.stream !== undefined) return releaseSlot(); // a stream stays open for long and has its own limits (live.ts)
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
 * Closes the connection if the client reads too slowly. This covers the time in which this answer is sent, and
 * before that waits for earlier answers on the connection. Otherwise a slow client could keep an answer in memory
 * forever. All answers on a connection together take at most two spans longer than they would at the minimum pace.
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
  // Makes browsers save a file instead of showing it. A stranger may have written it, and it could contain a script.
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

/** Writes the bytes in pieces. Each piece is written once the operating system has accepted the previous one. */
function writeInPieces(res: ServerResponse, bytes: Uint8Array): void {
  const rest = bytes.subarray(PIECE_BYTES);
  const piece = bytes.subarray(0, PIECE_BYTES);
  if (rest.length === 0) res.end(piece);
  else
    res.write(piece, (error) => {
      if (!error) writeInPieces(res, rest);
    });
}
