// Prints how those Lua scripts of BullMQ that our own Lua includes (bullmq-lua.mjs) differ between two of its releases.
//
//  node services/dev/compare-bullmq.mjs OLD NEW
//
// Each argument is a version of BullMQ, which npm fetches, or the folder of an unpacked BullMQ package.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { CHECKSUMS, checksumOf, readScript } from "./bullmq-lua.mjs";

const releases = process.argv.slice(2);
if (releases.length !== 2) {
  process.stderr.write("usage: node services/dev/compare-bullmq.mjs OLD NEW, for example: 6.6.1 6.7.0\n");
  process.exit(2);
}

function run(command, args, options) {
  const { status, error } = spawnSync(command, args, options);
  if (error) throw error;
  return status;
}

/** Returns the folder of a release's package. If `release` is a version, fetches the package into `folder` first. */
function fetched(release, folder) {
  if (existsSync(release)) return resolve(release);
  mkdirSync(folder);
  const quiet = { cwd: folder, stdio: ["ignore", "ignore", "inherit"] };
  if (run("npm", ["pack", "--loglevel=error", `bullmq@${release}`], quiet) !== 0) process.exit(1);
  if (run("tar", ["-xzf", ...readdirSync(folder)], quiet) !== 0) process.exit(1);
  return join(folder, "package");
}

/**
 * Writes a release's scripts to files. Returns a line with the name and the checksum of each, as `CHECKSUMS` in
 * bullmq-lua.mjs has it. The file names leave out the number of KEYS, because it may differ between the two releases.
 */
function write(from, to) {
  mkdirSync(to);
  const names = readdirSync(join(from, "dist/cjs/scripts"));
  return Object.keys(CHECKSUMS).flatMap((known) => {
    const base = known.replace(/-\d+$/, "");
    const named = names.filter((name) => /^(.*)-\d+\.js$/.exec(name)?.[1] === base);
    return named.map((file) => {
      const name = file.replace(/\.js$/, "");
      const lua = readScript(from, name);
      writeFileSync(join(to, `${base}.lua`), `-- ${name}\n${lua}`);
      return `  "${name}": "${checksumOf(lua)}",\n`;
    });
  });
}

const folder = mkdtempSync(join(tmpdir(), "compare-bullmq-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const [old, renewed] = releases.map((release, i) =>
  write(fetched(release, join(folder, `release-${i}`)), join(folder, ["old", "new"][i])),
);
run("git", ["diff", "--no-index", "--no-prefix", "old", "new"], { cwd: folder, stdio: "inherit" });
const changed = renewed.filter((line) => !old.includes(line));
if (renewed.length < old.length)
  process.stdout.write("\nThe new release lacks a script that our Lua includes.\n");
process.stdout.write(
  changed.length === 0
    ? "No script that our Lua includes has changed.\n"
    : `\nIf our Lua is also right for these, their checksums in services/dev/bullmq-lua.mjs are:\n${changed.join("")}`,
);
