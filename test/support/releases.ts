import { cpSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { builtEntry } from "../../shared/dev/process.ts";
import { tempDir } from "./temp-dir.ts";

const MAIN = "dist/services/cli/main.js";

/** The folder of the program as built. */
export const THIS_RELEASE = String(builtEntry("services/cli/main.js").at(-1)).slice(0, -MAIN.length - 1);

/** Node's arguments to run the program of the release in this folder. */
export const entryOf = (root: string): string[] => ["--enable-source-maps", join(root, MAIN)];

/** The number of the release in this folder. */
export const releaseIn = (root: string): string => aboutOf(root).version;

const aboutOf = (root: string) =>
  JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };

/** The program of this release as another one, which differs in its number alone. Returns its folder. */
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

/** A link to a release, by which a part is started: its next start runs what the link then leads to. */
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
