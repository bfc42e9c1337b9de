import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import { fromScript } from "./version.ts";

export type Script = (
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
) => Promise<unknown>;

/**
 * A Lua script on one connection. It is sent as its hash, and in full only if Redis does not know it because it is new,
 * was restarted or was flushed. It may refuse what a later release wrote (version.ts).
 */
export function script(redis: Redis, lua: string): Script {
  const sha = createHash("sha1").update(lua).digest("hex");
  return async (keys, args) => {
    try {
      return await redis.evalsha(sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw fromScript(error);
    }
    try {
      return await redis.eval(lua, keys.length, ...keys, ...args);
    } catch (error) {
      throw fromScript(error);
    }
  };
}

/** Lua that a script may begin with: `now` is Redis' time in unix milliseconds, so that clocks need not agree. */
export const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;
