import type { Redis } from "ioredis";
import { fromScript } from "./version.ts";

export type Sent = string | number | Buffer;
type Send = (command: "EVALSHA" | "EVAL", words: Sent[]) => Promise<unknown>;

/** Strings of replies are text, or Buffers with "bytes". */
export function toSend(redis: Redis, strings: "text" | "bytes"): Send {
  return (command, words) =>
    strings === "bytes" ? redis.callBuffer(command, words) : redis.call(command, words);
}

/**
 * Sends a script as its hash, the first of the words, and in full only if Redis does not know it because it is new, was restarted or was
 * flushed.
 */
export async function evaluate(send: Send, lua: string, words: Sent[]): Promise<unknown> {
  try {
    return await send("EVALSHA", words);
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw fromScript(error);
  }
  words[0] = lua;
  try {
    return await send("EVAL", words);
  } catch (error) {
    throw fromScript(error);
  }
}
