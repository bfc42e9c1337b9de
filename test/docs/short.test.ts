import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const linesOf = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8").split("\n");

test("README.md has at most 120 lines", () => {
  expect(linesOf("README.md").length - 1).toBeLessThanOrEqual(120);
});

test("docs/glossary.md has at most 40 terms, each on one line", () => {
  const terms = linesOf("docs/glossary.md").flatMap((line) => /^\| (.+?) \|/.exec(line)?.[1] ?? []);
  expect(new Set(terms).size).toBe(terms.length);
  expect(terms.length - 1).toBeLessThanOrEqual(40);
});
