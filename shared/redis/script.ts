import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import evenIfFullLua from "./even-if-full.lua";
import nowLua from "./now.lua";
import { fromScript } from "./version.ts";

export type Script = (
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
) => Promise<unknown>;

/**
 * A Lua script on one connection. It is sent as its hash, and in full only if Redis does not know it because it is new,
 * was restarted or was flushed. It may refuse what a later release wrote (version.ts). Strings of its reply are text, or
 * Buffers with "bytes".
 */
export function script(redis: Redis, lua: string, reply: "text" | "bytes" = "text"): Script {
  const sha = createHash("sha1").update(lua).digest("hex");
  const call = (command: "EVALSHA" | "EVAL", words: readonly (string | number | Buffer)[]) =>
    reply === "bytes" ? redis.callBuffer(command, [...words]) : redis.call(command, [...words]);
  return async (keys, args) => {
    const rest = [keys.length, ...keys, ...args];
    try {
      return await call("EVALSHA", [sha, ...rest]);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw fromScript(error);
    }
    try {
      return await call("EVAL", [lua, ...rest]);
    } catch (error) {
      throw fromScript(error);
    }
  };
}

export const EVEN_IF_FULL = evenIfFullLua;
export const NOW = nowLua;
