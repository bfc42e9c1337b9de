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
 * The history of injected calls, for searches. A record for each call, with an index for each search field, would cost
 * Redis as much as the call itself. So a producer collects the calls of a second in a block of text, a line each, and
 * writes the block as one value. A search reads the blocks, newest first. Their total size is limited.
 *
 * The first line of a block is JSON with the time `at` (unix ms) at which the block was begun. Each other line is the JSON
 * array of one call (type `Line`). Its times of acceptance and end are in ms after `at`. The element `attempts` is the
 * number of attempts. If the duration of the successful attempt is known, it is an array of both. The element `error` is
 * the error of the last failed attempt. A missing value is null, or left out if no value follows it. An earlier release
 * wrote neither event types nor errors.
 *
 * A sorted set is the index of the blocks. A member is `<number of calls> <bytes> <id of the block>`, and its score is the
 * newest time in that block.
 */

/** A call that its runner accepted. The times are unix ms. */
export type EndedCall = {
  id: string;
  /** `<origin>/<service id>/<job index>` */
  queue: string;
  acceptedAt: number;
  endedAt: number;
  /** Number of attempts, including the successful one. */
  attempts: number;
  /** Duration of the successful attempt, if it is known. */
  ms?: number | undefined;
  /** The path that received the webhook. */
  endpoint: string | undefined;
  deliveryId: string | undefined;
  payer: string | undefined;
  transaction: string | undefined;
  event: string | undefined;
  /** The beginning of the last failed attempt's `code: reason`. */
  error: string | undefined;
};

/** The attempts of a call that its runner accepted. */
export type AttemptSummary = {
  /** Number of all attempts, including those before replays. */
  attempts: number;
  /** Duration of the successful attempt. */
  ms?: number | undefined;
  /** `code: reason` of the last failed attempt. */
  error?: string | undefined;
};

const ERROR_MAX = 200;
const EVENT_MAX = 128;

/** Maximum time from the start of a block to the end of a call in it. A call that ends later goes to another block. */
export const BLOCK_SPAN_MS = 5000;

const BYTES_MAX = 64 * 1024;
const CALLS_MAX = 256;

/**
 * A block to which the producer still adds calls. Each call is encoded into the block's buffer when it is added. Its
 * strings could also be kept until the block is written, but strings that live for a second burden the garbage collector.
 */
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

  /** Adds a call. Returns false if the call must go to another block. An empty block accepts any call. */
  add(call: CallHead, tried: AttemptSummary, endedAt: number): boolean {
    if (this.calls === CALLS_MAX || endedAt - this.begunAt > BLOCK_SPAN_MS) return false;
    const line = toLine(call, tried, endedAt, this.begunAt);
    if (this.#length + 3 * line.length > BYTES_MAX) return false; // upper limit of the size in UTF-8
    this.#length += this.#bytes.write(line, this.#length);
    this.calls += 1;
    this.newest = Math.max(this.newest, endedAt);
    return true;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
}

/**
 * Encodes the line of a call. Concatenates the parts, because `JSON.stringify` of the whole line takes twice as long.
 */
function toLine(
  call: CallHead,
  { attempts, ms, error }: AttemptSummary,
  endedAt: number,
  at: number,
): string {
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

/** Returns the beginning of a call's line. No other line contains it. */
export function beginOf(id: string): string {
  return `[${JSON.stringify(id)},`;
}

/** Returns the calls of a block whose line may match, oldest first. */
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

/**
 * Parses a line. It reads the elements one by one, because destructuring takes twice as long, and a search reads half a
 * million lines.
 */
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
