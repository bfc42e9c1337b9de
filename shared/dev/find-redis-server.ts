import { AppError } from "../errors/app-error.ts";
import { findProgram, installPackage } from "./find-program.ts";

const NAMES = ["redis-server", "valkey-server"];

/**
 * The path of a Redis or Valkey server: from the PATH, else installed from the distribution's packages where that is
 * allowed. Throws `start.program_missing` with what to run.
 */
export function findRedisServer(env: NodeJS.ProcessEnv): string {
  const present = findProgram(NAMES, env);
  if (present !== undefined) return present;
  installPackage("redis-server", env);
  const installed = findProgram(NAMES, env);
  if (installed !== undefined) return installed;
  throw new AppError("start.program_missing", {
    reason: [
      "No redis-server or valkey-server on the PATH. Install one and run this again:",
      "  Debian, Ubuntu  sudo apt-get install -y redis-server",
      "  Fedora          sudo dnf install -y valkey",
      "  macOS           brew install redis",
      "or set REDIS_URL to a Redis that may be used, for example REDIS_URL=redis://127.0.0.1:6379",
    ].join("\n"),
  });
}
