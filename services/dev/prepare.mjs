// Builds the program after npm has installed a clone or a git URL. It is plain JavaScript because it runs before
// anything is built.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildIfChanged } from "./build.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const compiler = join(root, "node_modules/typescript/bin/tsc");

/** Builds only if the compiler is installed. `npm ci --omit=dev` leaves it out, and the existing build is used. */
if (existsSync(compiler)) {
  buildIfChanged(root, (step) => {
    const stdio = ["ignore", "inherit", "inherit"];
    const { error, status } = spawnSync(process.execPath, step, { cwd: root, stdio });
    if (error) throw error;
    if (status !== 0) process.exit(status ?? 1);
  });
}
