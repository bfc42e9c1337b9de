import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "./temp-dir.ts";

/** An environment in which `startRedis` starts this Valkey: a redis-server on the PATH would be found first. */
export function valkeyEnv(program: string): NodeJS.ProcessEnv {
  const only = tempDir();
  symlinkSync(program, join(only, "valkey-server"));
  return { ...process.env, PATH: only };
}
