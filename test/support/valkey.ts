import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findProgram } from "../../shared/dev/find-program.ts";
import { tempDir } from "./temp-dir.ts";

/**
 * The environment in which `startRedis` starts Valkey: the one on the PATH, else Debian's, unpacked into a temporary folder. Undefined
 * if neither can be had, so that a test can say so and be skipped. Throws with CI=true.
 */
export function valkeyEnv(): NodeJS.ProcessEnv | undefined {
  const program = findProgram(["valkey-server"], process.env) ?? unpackValkey();
  if (program === undefined && process.env["CI"] === "true")
    throw new Error("CI needs valkey-server: on the PATH, or by apt-get from Debian's backports");
  if (program === undefined) {
    console.warn("valkey-server is not installed and could not be downloaded: its tests are skipped");
    return undefined;
  }
  const only = tempDir(); // a redis-server beside it would be found first
  symlinkSync(program, join(only, "valkey-server"));
  return { ...process.env, PATH: only };
}

/** Downloads the packages with lists of its own, so the system's stay as they are. Needs no root. */
function unpackValkey(): string | undefined {
  const [site, codename] =
    run("apt-get", ["indextargets", "--format", "$(SITE) $(CODENAME)"])
      .split("\n")
      .filter((line) => /^\S+\/debian\/? [a-z]+$/.test(line))
      .map((line) => line.split(" "))[0] ?? [];
  if (site === undefined) return undefined;
  const dir = tempDir();
  for (const name of ["lists/partial", "cache/archives/partial", "root"])
    mkdirSync(join(dir, name), { recursive: true });
  writeFileSync(join(dir, "sources.list"), `deb ${site} ${codename}-backports main\n`);
  const options = [
    ...["-o", `Dir::Etc::sourcelist=${dir}/sources.list`, "-o", "Dir::Etc::sourceparts=-"],
    ...["-o", `Dir::State::lists=${dir}/lists`, "-o", `Dir::Cache=${dir}/cache`],
  ];
  run("apt-get", [...options, "-qq", "update"], dir);
  run("apt-get", [...options, "-qq", "download", "valkey-server", "valkey-tools"], dir);
  for (const name of readdirSync(dir).filter((each) => each.endsWith(".deb")))
    run("dpkg", ["-x", name, "root"], dir);
  return findProgram(["valkey-server"], { PATH: join(dir, "root/usr/bin") });
}

/** What a program says; nothing if it is not there. */
function run(program: string, args: readonly string[], cwd?: string): string {
  return (
    spawnSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).stdout ?? ""
  );
}
