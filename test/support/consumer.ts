import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempDir } from "./temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
export const COMPILER = join(root, "node_modules/typescript/bin/tsc");

type Lock = { packages: Record<string, { dev?: boolean; devOptional?: boolean }> };

/** Makes a user's project: the unpacked package, the packages that its installation brings, and those in `with`. */
export function makeConsumer({ with: installed = [] }: { with?: readonly string[] } = {}): string {
  const dir = tempDir();
  run(dir, "npm", "pack", root, "--ignore-scripts", "--silent");
  const packed = String(readdirSync(dir).find((name) => name.endsWith(".tgz")));
  const home = join(dir, "node_modules", "postern");
  mkdirSync(home, { recursive: true });
  run(dir, "tar", "-xzf", packed, "-C", home, "--strip-components", "1");
  for (const name of new Set([...productionPackages(), ...installed])) link(dir, name);
  writeFileSync(join(dir, "package.json"), JSON.stringify({ type: "module" }));
  const compilerOptions = {
    ...{ strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false },
    ...{ target: "es2023", module: "nodenext", types: ["node"] },
  };
  writeFileSync(join(dir, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  return dir;
}

/** Returns the packages that npm installs at the top level for a user of the package. */
export function productionPackages(): string[] {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock;
  return Object.entries(packages).flatMap(([path, { dev = false, devOptional = false }]) => {
    const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(path)?.[1];
    return name === undefined || dev || devOptional ? [] : [name];
  });
}

function link(dir: string, name: string): void {
  const at = join(dir, "node_modules", name);
  mkdirSync(dirname(at), { recursive: true });
  symlinkSync(join(root, "node_modules", name), at);
}

function run(cwd: string, command: string, ...args: string[]): void {
  const { error, status, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}`);
}
