import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { tempDir } from "./temp-dir.ts";

export type Ran = { code: number | null; stdout: Buffer; stderr: string; ms: number };

type Run = { onStderr?: (soFar: string, kill: (signal: NodeJS.Signals) => void) => void };

/** Runs the built program against the Redis at `redisUrl`, without a terminal. */
export function cliOf(redisUrl: string) {
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, { postern: { redis: { url: redisUrl } } });
  const main = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
  return (args: readonly string[], { onStderr }: Run = {}): Promise<Ran> =>
    new Promise((resolve, reject) => {
      const startedAt = Date.now();
      const env = { ...process.env, POSTERN_CONFIG_DIR: configDir };
      const child = spawn(process.execPath, [main, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
      const stdout: Buffer[] = [];
      let stderr = "";
      child.stdout.on("data", (chunk: Buffer) => void stdout.push(chunk));
      child.stderr.on("data", (chunk: Buffer) => {
        stderr += chunk.toString();
        onStderr?.(stderr, (signal) => void child.kill(signal));
      });
      child.on("error", reject);
      child.on("close", (code) => {
        resolve({ code, stdout: Buffer.concat(stdout), stderr, ms: Date.now() - startedAt });
      });
    });
}
