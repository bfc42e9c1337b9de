import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { parseJson } from "../text/parse-json.ts";

/** A running `postern dev` on this machine, and its configuration directory. */
const RunningDev = z.object({ pid: z.int().positive(), config_dir: z.string() });
type RunningDev = z.infer<typeof RunningDev>;

/**
 * Returns the file that records this user's last `postern dev`. Undefined if the user has no directory for such files.
 */
function fileOf(env: NodeJS.ProcessEnv): string | undefined {
  const { XDG_RUNTIME_DIR: runtime, XDG_CACHE_HOME: cache, HOME: home } = env;
  const folder = runtime || cache || (home && join(home, ".cache"));
  return folder ? join(folder, "postern", "dev.json") : undefined;
}

/**
 * Records this `postern dev` in a file, so that other commands of this user find its configuration while its process
 * runs. If the file cannot be written, `postern dev` runs anyway.
 */
export function publishRunningDev(env: NodeJS.ProcessEnv, configDir: string): void {
  const file = fileOf(env);
  if (file === undefined) return;
  const own: RunningDev = { pid: process.pid, config_dir: configDir };
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    const written = `${file}.${process.pid}`;
    writeFileSync(written, JSON.stringify(own), { mode: 0o600 });
    renameSync(written, file);
  } catch {
    return;
  }
  process.once("exit", () => {
    if (readFile(file)?.pid === process.pid) rmSync(file, { force: true });
  });
}

/** Returns the `postern dev` that was started last. Undefined if it no longer runs. */
export function findRunningDev(env: NodeJS.ProcessEnv): RunningDev | undefined {
  const file = fileOf(env);
  const found = file === undefined ? undefined : readFile(file);
  return found !== undefined && isOwn(found.pid) && existsSync(found.config_dir) ? found : undefined;
}

function readFile(file: string): RunningDev | undefined {
  try {
    return RunningDev.safeParse(parseJson(readFileSync(file, "utf8"))).data;
  } catch {
    return undefined;
  }
}

/** Returns whether a process with this id runs and this user may send it signals (a signal 0 only checks this). */
function isOwn(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
