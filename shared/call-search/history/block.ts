import { randomBytes } from "node:crypto";
import {
  type CallHead,
  eventOf,
  WEBHOOK_DELIVERY_ID,
  WEBHOOK_PATH,
  X402_PAYER,
  X402_TRANSACTION,
} from "../../call/job-call.ts";
import { cut } from "../../platform/text/cut.ts";
import { queueOf } from "../../queue/queue-name.ts";

/*
 * The calls that runners took are remembered for whoever looks for one. A record for each call, with an index for each thing that it may
 * be looked for by, would cost Redis as much as the call itself. So a producer gathers the calls of a second into a block of text, a
 * line each, and writes that as one value. Whoever looks for a call looks through the blocks, newest first: there are so many bytes of
 * them at most.
 *
 * The first line of a block is a time. Another line is a JSON array: id, when it was accepted and when it ended, both in ms after that time,
 * attempts with the duration of the last one in ms (or attempts alone), queue, path of the webhook endpoint, delivery id, payer,
 * transaction, event type, error of the last failed attempt. What a call does not have is null, or left out at the end. An earlier release
 * wrote neither event types nor errors.
 *
 * The index is a zset of `<calls> <bytes> <id>` by the newest time in the block.
 */

/** A call that its runner took. The times are unix ms. */
export type EndedCall = {
  id: string;
  /** `<origin>/<service id>/<job index>` */
  queue: string;
  acceptedAt: number;
  endedAt: number;
  /** The one that succeeded counts too. */
  attempts: number;
  /** Duration of the attempt that succeeded, if it is known. */
  ms?: number | undefined;
  /** The path that the webhook came to. */
  endpoint: string | undefined;
  deliveryId: string | undefined;
  payer: string | undefined;
  transaction: string | undefined;
  event: string | undefined;
  /** The beginning of the last failed attempt's `code: reason`. */
  error: string | undefined;
};

/** The attempts of a call that its runner took. */
export type Tried = {
  /** All of them, also across replays. */
  attempts: number;
  /** Duration of the one that succeeded. */
  ms?: number | undefined;
  /** The last failed one's `code: reason`. */
  error?: string | undefined;
};

const ERROR_MAX = 200;
const EVENT_MAX = 128;

/** No two times of a block are further apart. */
export const BLOCK_SPAN_MS = 5000;

const BYTES_MAX = 64 * 1024;
const CALLS_MAX = 256;

/** A block that calls are added to. Its lines are bytes at once: as texts that live for a second they cost the garbage collection. */
export class NewBlock {
  readonly id = randomBytes(9).toString("base64url");
  readonly begunAt: number;
  calls = 0;
  newest: number;
  readonly #bytes = Buffer.allocUnsafeSlow(BYTES_MAX);
  #length: number;

  constructor(now: number) {
    this.begunAt = now;
    this.newest = now;
    this.#length = this.#bytes.write(`${JSON.stringify({ at: now })}\n`);
  }

  /** False if the call has to go to another block. An empty one has room for any. */
  add(call: CallHead, tried: Tried, endedAt: number): boolean {
    if (this.calls === CALLS_MAX || endedAt - this.begunAt > BLOCK_SPAN_MS) return false;
    const line = toLine(call, tried, endedAt, this.begunAt);
    if (this.#length + 3 * line.length > BYTES_MAX) return false; // as UTF-8 at most
    this.#length += this.#bytes.write(line, this.#length);
    this.calls += 1;
    this.newest = Math.max(this.newest, endedAt);
    return true;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
}

/** Written piece by piece: `JSON.stringify` of the whole takes twice as long, and a producer writes a line for each call. */
function toLine(call: CallHead, { attempts, ms, error }: Tried, endedAt: number, at: number): string {
  const { id, metadata, accepted_at } = call;
  const event = eventOf(metadata);
  const texts = [
    metadata[WEBHOOK_PATH],
    metadata[WEBHOOK_DELIVERY_ID],
    metadata[X402_PAYER],
    metadata[X402_TRANSACTION],
    event && cut(event, EVENT_MAX),
    error && cut(error, ERROR_MAX),
  ];
  const tried = ms === undefined ? attempts : `[${attempts},${ms}]`;
  let line = `["${id}",${accepted_at - at},${endedAt - at},${tried},"${queueOf(call)}"`;
  let left = "";
  for (const text of texts) {
    if (text === undefined) left += ",null";
    else {
      line += `${left},${JSON.stringify(text)}`;
      left = "";
    }
  }
  return `${line}]\n`;
}

/** What the line of a call begins with, which no other line contains. */
export function beginOf(id: string): string {
  return `[${JSON.stringify(id)},`;
}

/** The calls of a block whose line may match, oldest first. */
export function callsIn(block: string, mayMatch: (line: string) => boolean): EndedCall[] {
  const lines = block.split("\n");
  const { at = 0 } = JSON.parse(lines[0] ?? "{}") as { at?: number };
  return lines
    .slice(1)
    .filter((line) => line !== "" && mayMatch(line))
    .map((line) => toCall(line, at));
}

type Line = [
  id: string,
  acceptedAfter: number,
  endedAfter: number,
  attempts: number | readonly [attempts: number, ms: number],
  queue: string,
  endpoint?: string | null,
  deliveryId?: string | null,
  payer?: string | null,
  transaction?: string | null,
  event?: string | null,
  error?: string | null,
];

/** Reads the places one by one: half a million lines are read at a time, and destructuring takes twice as long. */
function toCall(stored: string, at: number): EndedCall {
  const line = JSON.parse(stored) as Line;
  const tried = line[3];
  return {
    id: line[0],
    queue: line[4],
    acceptedAt: at + line[1],
    endedAt: at + line[2],
    attempts: typeof tried === "number" ? tried : tried[0],
    ms: typeof tried === "number" ? undefined : tried[1],
    endpoint: line[5] ?? undefined,
    deliveryId: line[6] ?? undefined,
    payer: line[7] ?? undefined,
    transaction: line[8] ?? undefined,
    event: line[9] ?? undefined,
    error: line[10] ?? undefined,
  };
}
