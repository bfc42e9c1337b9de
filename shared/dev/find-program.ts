import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Returns the full path of the first of these programs that is on the PATH. */
export function findProgram(names: readonly string[], env: NodeJS.ProcessEnv): string | undefined {
  const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates = names.flatMap((name) => folders.map((folder) => join(folder, name)));
  return candidates.find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Installs Debian packages if no password is needed: apt-get exists, this user is root or may use sudo without a
 * password, and POSTERN_NO_INSTALL is not set. Call `findProgram` afterwards to see whether it worked. Each package
 * is installed by itself, because apt-get installs none of several if one of them does not exist.
 */
export function installPackages(names: readonly string[], env: NodeJS.ProcessEnv): void {
  const apt = findProgram(["apt-get"], env);
  if (env["POSTERN_NO_INSTALL"] || apt === undefined || names.length === 0) return;
  const prefix = asRoot(env);
  if (prefix === undefined) return;
  const options = { env: { ...env, DEBIAN_FRONTEND: "noninteractive" }, stdio: ["ignore", 2, 2] as const };
  const installs = names.map((name) => ["install", "-y", "-qq", name]);
  for (const args of [["update", "-qq"], ...installs]) {
    const [command = apt, ...rest] = [...prefix, apt, ...args];
    spawnSync(command, rest, { ...options, stdio: [...options.stdio] });
  }
}

/** Returns the words to put before a command to run it as root; undefined if this user cannot become root. */
function asRoot(env: NodeJS.ProcessEnv): string[] | undefined {
  if (process.getuid?.() === 0) return [];
  return spawnSync("sudo", ["-n", "true"], { env, stdio: "ignore" }).status === 0
    ? ["sudo", "-n"]
    : undefined;
}
