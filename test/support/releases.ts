import { cpSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { builtEntry } from "../../shared/dev/process.ts";
import { tempDir } from "./temp-dir.ts";

const MAIN = "dist/services/cli/main.js";

/** Folder of the built program. */
export const THIS_RELEASE = String(builtEntry("services/cli/main.js").at(-1)).slice(0, -MAIN.length - 1);

/** Returns the arguments of Node that run the program of the release in this folder. */
export const entryOf = (root: string): string[] => ["--enable-source-maps", join(root, MAIN)];

/** Returns the version of the release in this folder. */
export const releaseIn = (root: string): string => aboutOf(root).version;

const aboutOf = (root: string) =>
  JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };

/** Makes a copy of this release that differs only in its version. Returns its folder. */
export function releaseNamed(version: string): string {
  const dir = tempDir();
  cpSync(join(THIS_RELEASE, "dist"), join(dir, "dist"), {
    recursive: true,
    filter: (path) => !/\/dist\/\./.test(path),
  });
  symlinkSync(join(THIS_RELEASE, "node_modules"), join(dir, "node_modules"));
  writeFileSync(join(dir, "package.json"), JSON.stringify({ ...aboutOf(THIS_RELEASE), version }));
  return dir;
}

/** A symbolic link to a release, through which a part is started. After `lead`, the next start runs another release. */
export type ReleaseLink = { entry: string[]; lead(root: string): void };

export function linkTo(root: string): ReleaseLink {
  const link = join(tempDir(), "current");
  symlinkSync(root, link);
  return {
    entry: entryOf(link),
    lead(next) {
      rmSync(link);
      symlinkSync(next, link);
    },
  };
}
