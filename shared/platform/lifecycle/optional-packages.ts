import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { AppError } from "../errors/app-error.ts";
import { shellQuote } from "../text/shell-quote.ts";

const load = createRequire(import.meta.url);

/**
 * Returns the error `start.package_missing` with the install command if one of these packages is not installed. `user`
 * names the command or setting that needs them. Nothing else in Postern needs them. So they are optional peer
 * dependencies in package.json, which also says in which versions.
 */
export function missingPackages(user: string, names: readonly string[]): AppError | undefined {
  const missing = names.filter((name) => !isInstalled(name));
  if (missing.length === 0) return undefined;
  const { peerDependencies: versions } = load("postern/package.json") as {
    peerDependencies: Record<string, string>;
  };
  const wanted = missing.map((name) => shellQuote(`${name}@${versions[name]}`));
  const reason = [
    `${user} needs packages that are not installed. Install them beside Postern and run this again:`,
    `  npm install ${wanted.join(" ")}`,
  ].join("\n");
  return new AppError("start.package_missing", { reason });
}

function isInstalled(name: string): boolean {
  const folders = load.resolve.paths(name) ?? [];
  return folders.some((folder) => existsSync(join(folder, name, "package.json")));
}
