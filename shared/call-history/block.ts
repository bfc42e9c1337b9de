import {
  type CallHead,
  jobKeyOf,
  WEBHOOK_DELIVERY_ID,
  WEBHOOK_PATH,
  X402_PAYER,
  X402_TRANSACTION,
} from "../job-call/job-call.ts";
import { isNewer, VERSIONS } from "../redis/version.ts";

/*
 * The calls that runners took are remembered for whoever looks for one. A record for each call, with an index for each thing that it may
 * be looked for by, would cost Redis as much as the call itself. So a producer gathers the calls of a second into a block of text, a
 * line each, and writes that as one value. Whoever looks for a call looks through the blocks, newest first: there are so many bytes of
 * them at most.
 *
 * The first line of a block is its version. Another line is a JSON array: id, queue, accepted at, ended at, attempts, path of the
 * webhook endpoint, delivery id, payer, transaction. What a call does not have is null, or left out at the end.
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
  /** The path that the webhook came to. */
  endpoint: string | undefined;
  deliveryId: string | undefined;
  payer: string | undefined;
  transaction: string | undefined;
};

/** No two times of a block are further apart. */
export const BLOCK_SPAN_MS = 5000;

const HEAD = JSON.stringify({ v: VERSIONS.callHistory });

/** Written piece by piece: `JSON.stringify` of the whole takes twice as long, and a producer writes a line for each call. */
export function toLine(call: CallHead, attempts: number, endedAt: number): string {
  const { id, origin, metadata, accepted_at } = call;
  let line = `["${id}","${origin}/${jobKeyOf(call)}",${accepted_at},${endedAt},${attempts}`;
  let left = "";
  for (const name of [WEBHOOK_PATH, WEBHOOK_DELIVERY_ID, X402_PAYER, X402_TRANSACTION]) {
    const text = metadata[name];
    if (text === undefined) left += ",null";
    else {
      line += `${left},${JSON.stringify(text)}`;
      left = "";
    }
  }
  return `${line}]`;
}

export function toBlock(lines: readonly string[]): string {
  return `${HEAD}\n${lines.join("\n")}\n`;
}

/** What the line of a call begins with, which no other line contains. */
export function beginOf(id: string): string {
  return `[${JSON.stringify(id)},`;
}

/** The calls of a block whose line has all these texts, oldest first. None if a later release wrote it. */
export function callsIn(block: string, texts: readonly string[]): EndedCall[] {
  const lines = block.split("\n");
  const { v } = JSON.parse(lines[0] ?? "{}") as { v?: number };
  if (isNewer("callHistory", v)) return [];
  return lines
    .slice(1)
    .filter((line) => line !== "" && texts.every((text) => line.includes(text)))
    .map(toCall);
}

type Line = [
  id: string,
  queue: string,
  acceptedAt: number,
  endedAt: number,
  attempts: number,
  ...rest: (string | null)[],
];

function toCall(line: string): EndedCall {
  const [id, queue, acceptedAt, endedAt, attempts, ...rest] = JSON.parse(line) as Line;
  const [endpoint, deliveryId, payer, transaction] = rest.map((text) => text ?? undefined);
  return { id, queue, acceptedAt, endedAt, attempts, endpoint, deliveryId, payer, transaction };
}
