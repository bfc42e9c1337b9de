import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempDir } from "./temp-dir.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Simulates a machine without anvil, neither from npm nor on the PATH, and without these packages. Returns the built
 * program for it.
 */
export function withoutAnvil(...packages: string[]): { dist: string; env: NodeJS.ProcessEnv } {
  const home = tempDir();
  for (const part of ["package.json", "dist"])
    cpSync(join(ROOT, part), join(home, part), { recursive: true });
  mkdirSync(join(home, "node_modules"));
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    if (!["@foundry-rs", ...packages].includes(name))
      symlinkSync(join(ROOT, "node_modules", name), join(home, "node_modules", name));
  }
  const path = (process.env["PATH"] ?? "").split(delimiter).filter((dir) => !existsSync(join(dir, "anvil")));
  return { dist: join(home, "dist"), env: { PATH: path.join(delimiter) } };
}
