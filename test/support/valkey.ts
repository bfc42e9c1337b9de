import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempDir } from "./temp-dir.ts";

const UNPACKED = fileURLToPath(new URL("../../.cache/valkey", import.meta.url));

/** The folder of the programs that `unpackValkey` unpacks. */
export const UNPACKED_VALKEY = join(UNPACKED, "usr/bin");

/** An environment in which `startRedis` starts this Valkey: a redis-server on the PATH would be found first. */
export function valkeyEnv(program: string): NodeJS.ProcessEnv {
  const only = tempDir();
  symlinkSync(program, join(only, "valkey-server"));
  return { ...process.env, PATH: only };
}

/**
 * Downloads Debian's packages and unpacks them beside the npm packages: an older Debian has Valkey in its backports only, and a
 * second server of the system is not needed. The package lists are its own, so the system's stay as they are. Needs no root.
 */
export function unpackValkey(env: NodeJS.ProcessEnv): void {
  if (env["POSTERN_NO_INSTALL"]) return;
  const dir = tempDir();
  const run = (program: string, args: readonly string[]) =>
    spawnSync(program, args, { cwd: dir, env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).stdout;
  const targets = run("apt-get", ["indextargets", "--format", "$(SITE) $(CODENAME)"]) ?? "";
  const [, site, codename] = /^(\S+\/debian\/?) ([a-z]+)$/m.exec(targets) ?? [];
  if (site === undefined) return;
  for (const name of ["lists/partial", "cache/archives/partial"])
    mkdirSync(join(dir, name), { recursive: true });
  const suites = [codename, `${codename}-backports`].map((suite) => `deb ${site} ${suite} main\n`);
  writeFileSync(join(dir, "sources.list"), suites.join(""));
  const options = [
    ...["-o", `Dir::Etc::sourcelist=${dir}/sources.list`, "-o", "Dir::Etc::sourceparts=-"],
    ...["-o", `Dir::State::lists=${dir}/lists`, "-o", `Dir::Cache=${dir}/cache`],
  ];
  run("apt-get", [...options, "-qq", "update"]);
  run("apt-get", [...options, "-qq", "download", "valkey-server", "valkey-tools"]);
  mkdirSync(UNPACKED, { recursive: true });
  for (const name of readdirSync(dir).filter((each) => each.endsWith(".deb")))
    run("dpkg", ["-x", name, UNPACKED]);
}
