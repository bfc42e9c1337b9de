import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempDir } from "./temp-dir.ts";

const UNPACKED = fileURLToPath(new URL("../../.cache/debian", import.meta.url));

/**
 * The first release of Debian with kustomize, which needs no other package. On an older Debian, only missing packages
 * come from this release, because others might not run with its libraries.
 */
const NEWER = "trixie";

/** Folder of the programs that `unpackPackages` unpacks. */
export const UNPACKED_BIN = join(UNPACKED, "usr/bin");

/**
 * Downloads Debian packages and unpacks them beside the npm packages, without root. They are not installed, because
 * an installation would start a system service. Besides, an older Debian has some only in its backports, or not at
 * all. The package lists are separate, so the system's lists do not change.
 */
export function unpackPackages(names: readonly string[], env: NodeJS.ProcessEnv): void {
  if (env["POSTERN_NO_INSTALL"] || names.length === 0) return;
  const dir = tempDir();
  const run = (program: string, args: readonly string[]) =>
    spawnSync(program, args, { cwd: dir, env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).stdout;
  const targets = run("apt-get", ["indextargets", "--format", "$(SITE) $(CODENAME)"]) ?? "";
  const [, site, codename] = /^(\S+\/debian\/?) ([a-z]+)$/m.exec(targets) ?? [];
  if (site === undefined) return;
  for (const name of ["lists/partial", "cache/archives/partial"])
    mkdirSync(join(dir, name), { recursive: true });
  const suites = [...new Set([codename, `${codename}-backports`, NEWER])].map(
    (suite) => `deb ${site} ${suite} main\n`,
  );
  writeFileSync(join(dir, "sources.list"), suites.join(""));
  const pin = codename === NEWER ? "" : `Package: *\nPin: release n=${NEWER}\nPin-Priority: 1\n`;
  writeFileSync(join(dir, "preferences"), pin);
  const options = [
    ...["-o", `Dir::Etc::sourcelist=${dir}/sources.list`, "-o", "Dir::Etc::sourceparts=-"],
    ...["-o", `Dir::Etc::preferences=${dir}/preferences`, "-o", "Dir::Etc::preferencesparts=/dev/null"],
    ...["-o", `Dir::State::lists=${dir}/lists`, "-o", `Dir::Cache=${dir}/cache`],
  ];
  run("apt-get", [...options, "-qq", "update"]);
  run("apt-get", [...options, "-qq", "download", ...names]);
  mkdirSync(UNPACKED, { recursive: true });
  for (const name of readdirSync(dir).filter((each) => each.endsWith(".deb")))
    run("dpkg", ["-x", name, UNPACKED]);
}
