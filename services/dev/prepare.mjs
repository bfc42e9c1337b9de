// Builds the program after `npm install` in a clone, or when npm installs Postern from a git URL. npm runs it as the
// script `prepare`. It is plain JavaScript because it runs before anything is built.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildIfChanged } from "./build.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const compiler = join(root, "node_modules/typescript/bin/tsc");

/** Without the compiler, nothing is built. `npm ci --omit=dev` does not install it, and the existing build is used then. */
if (existsSync(compiler)) {
  buildIfChanged(root, (step) => {
    const stdio = ["ignore", "inherit", "inherit"];
    const { error, status } = spawnSync(process.execPath, step, { cwd: root, stdio });
    if (error) throw error;
    if (status !== 0) process.exit(status ?? 1);
  });
}
