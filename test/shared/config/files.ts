import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../support/temp-dir.ts";

/** Texts by the name of their file. */
export type Files = Readonly<Record<string, string | undefined>>;

/** A new folder with these files. */
export function dirWith(files: Files): string {
  const dir = tempDir();
  for (const [name, text] of Object.entries(files)) {
    if (text !== undefined) writeFileSync(join(dir, name), text);
  }
  return dir;
}

/** The problems that loading throws, without the folder before them. */
export function problemsOf(load: () => unknown): string[] {
  try {
    load();
    return [];
  } catch (error) {
    return (error as Error).message.split("\n").map((line) => line.replace(/^.*\/(?=[^/]*\.toml: )/, ""));
  }
}
