// Releases of Node that are tested beside the one that a developer has. Plain JavaScript: it runs before anything is installed.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

/** Version by release. The Dockerfile names one of these. */
export const OTHER_NODES = { 24: "24.21.0", 26: "26.10.0" };

/**
 * Folder of the program of this release. npm installs it unless POSTERN_NO_INSTALL is set; undefined if it is not there then. The
 * package `node` would need an install script, which installs this one. `npm ci` would empty a folder in `node_modules`.
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
