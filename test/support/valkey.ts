import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "./temp-dir.ts";

/**
 * Returns an environment in which `startRedis` starts this Valkey. By default a redis-server on the PATH would be
 * found first.
 */
export function valkeyEnv(program: string): NodeJS.ProcessEnv {
  const only = tempDir();
  symlinkSync(program, join(only, "valkey-server"));
  return { ...process.env, PATH: only };
}
