import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { productionPackages } from "../support/consumer.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { exports: entries, dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, string | { types: string }>;
  dependencies: Record<string, string>;
};

/** Returns the packages that a type declaration file imports, directly or indirectly. */
function packagesIn(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file)) return [];
  seen.add(file);
  const targets = [...readFileSync(file, "utf8").matchAll(/(?:from |import\(|import )"([^"]+)"/g)].map(
    (match) => String(match[1]),
  );
  return targets.flatMap((target) => {
    if (target.startsWith("node:")) return ["@types/node"];
    if (!target.startsWith(".")) return [String(/^(?:@[^/]+\/)?[^/]+/.exec(target)?.[0])];
    const declared = join(dirname(file), target.replace(/\.[tj]s$/, ".d.ts"));
    return existsSync(declared) ? packagesIn(declared, seen) : [`no ${declared}`];
  });
}

test("every package that the public types import is a dependency, so an install includes it, and express is not among them", () => {
  const files = Object.values(entries).flatMap((entry) => (typeof entry === "string" ? [] : [entry.types]));
  const packages = new Set(files.flatMap((file) => packagesIn(join(root, file))));
  expect([...packages].filter((name) => dependencies[name] === undefined)).toEqual([]);
  expect(productionPackages()).toEqual(expect.arrayContaining([...packages]));
  expect(packages).not.toContain("express");
});
