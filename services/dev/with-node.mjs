// Runs a command with a Node of another release first on the PATH: node services/dev/with-node.mjs 24 npm test
// Plain JavaScript: it runs before anything is installed.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const [release, command, ...args] = process.argv.slice(2);
if (!/^\d+$/.test(release ?? "") || command === undefined) {
  console.error(
    "usage: node services/dev/with-node.mjs RELEASE COMMAND [ARGUMENT...], for example: 24 npm test",
  );
  process.exit(2);
}
const PATH = `${install(release)}${delimiter}${process.env.PATH}`;
const { status, signal, error } = spawnSync(command, args, {
  stdio: "inherit",
  env: { ...process.env, PATH },
});
if (error) throw error;
if (signal) process.kill(process.pid, signal);
process.exit(status ?? 1);

/**
 * Installs the newest Node of a release from npm, and returns the folder of its program. The package `node` would need an install script
 * that installs this one.
 */
function install(major) {
  const folder = join(root, "node_modules/.cache/node", major);
  const name = `node-${process.platform}-${process.arch}`;
  const bin = join(folder, "node_modules", name, "bin");
  if (existsSync(join(bin, "node"))) return bin;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), "{}\n"); // else npm installs into the project
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status: installed } = spawnSync("npm", ["install", ...options, `${name}@${major}`], {
    cwd: folder,
    stdio: ["ignore", 2, 2],
  });
  if (installed === 0 && existsSync(join(bin, "node"))) return bin;
  console.error(`npm could not install ${name}@${major}`);
  process.exit(1);
}
