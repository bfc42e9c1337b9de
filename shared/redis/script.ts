import { createHash } from "node:crypto";
import type { Redis } from "ioredis";

export type Script = (keys: readonly string[], args: readonly (string | number)[]) => Promise<unknown>;

/** A Lua script on one connection: sent as its hash, and whole when Redis does not know it (new, restarted, flushed). */
export function script(redis: Redis, lua: string): Script {
  const sha = createHash("sha1").update(lua).digest("hex");
  return async (keys, args) => {
    try {
      return await redis.evalsha(sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return redis.eval(lua, keys.length, ...keys, ...args);
    }
  };
}
