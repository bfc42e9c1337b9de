import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The compiled form of a script of this project, or of another clone of it: what is compared runs from plain JavaScript on both sides. */
export function compiled(script: string, clone = root): string {
  const place = script.startsWith("bench/") ? "dist/.bench" : "dist";
  return join(clone, place, script.replace(/\.ts$/, ".js"));
}

/** Compiles the bench's own processes, with what they import of the program. */
export function buildProcesses(): void {
  const tsc = [`${root}node_modules/typescript/bin/tsc`, "-p", `${root}bench/tsconfig.json`];
  const { status } = spawnSync(process.execPath, tsc, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Error("the bench's processes do not compile");
}
