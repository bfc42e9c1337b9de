import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { parseJson } from "../text/parse-json.ts";

/** A `postern dev` that runs on this machine, and the directory of its configuration. */
const RunningDev = z.object({ pid: z.int().positive(), config_dir: z.string() });
type RunningDev = z.infer<typeof RunningDev>;

/** The file that the last dev of this user wrote. Undefined if the user has no folder for it. */
function fileOf(env: NodeJS.ProcessEnv): string | undefined {
  const { XDG_RUNTIME_DIR: runtime, XDG_CACHE_HOME: cache, HOME: home } = env;
  const folder = runtime || cache || (home && join(home, ".cache"));
  return folder ? join(folder, "postern", "dev.json") : undefined;
}

/** Lets other commands of this user find this dev until its process ends. It runs as well where the file cannot be written. */
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

/** The dev that was started last. Undefined if it no longer runs. */
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

/** Whether a process with this id runs, and is this user's. */
function isOwn(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
