import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** File contents by name. */
export type Files = Readonly<Record<string, string | undefined>>;

/** Makes a folder with these files. */
export function dirWith(files: Files): string {
  const dir = tempDir();
  for (const [name, text] of Object.entries(files)) {
    if (text !== undefined) writeFileSync(join(dir, name), text);
  }
  return dir;
}

export const exampleFile = (name: string): string =>
  readFileSync(new URL(`../../../config/example/${name}`, import.meta.url), "utf8");

/** Returns an example file in which each secret and recipient is replaced by a valid value. */
export function filledExample(name: string): string {
  return exampleFile(name)
    .replaceAll("replace-this-rpc-url", "https://node.example.com")
    .replaceAll(`0x${"0".repeat(40)}`, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
    .replaceAll(/replace-this-((?:viewer|operator)-token)/g, "$1-5f0c4f8e7d1a6b2393ce1f6a0d78b54e")
    .replaceAll(/replace-this-[a-z-]+/g, "a secret of one's own");
}

/** Returns the problems that loading throws, without the folder and the lines. */
export function problemsOf(load: () => unknown): string[] {
  return placedProblemsOf(load).map((line) => line.replace(/(?<=^[^/: ]*\.toml):\d+(?=: )/, ""));
}

/** Returns the problems that loading throws, without the folder. */
export function placedProblemsOf(load: () => unknown): string[] {
  try {
    load();
    return [];
  } catch (error) {
    return (error as Error).message
      .split("\n")
      .map((line) => line.replace(/^.*\/(?=[^/: ]*\.toml(?::\d+)?: )/, ""));
  }
}

/** Returns the problems of a webhooks.toml with one endpoint, at the path `/a`. */
export function endpointProblems(lines: string): string[] {
  const files = { "webhooks.toml": `[[endpoints]]\npath = "/a"\n${lines}\n` };
  return problemsOf(() => loadConfig(readWebhooks, { dir: dirWith(files), env: {} }));
}

/** Returns the list that has only this problem of the endpoint `/a`. */
export function onlyProblem(problem: string): unknown[] {
  return [expect.stringContaining(`webhooks.toml: endpoint /a: ${problem}`)];
}
