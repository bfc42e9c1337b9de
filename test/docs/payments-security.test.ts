import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const page = new URL("../../docs/payments-security.md", import.meta.url);

test("every attack of docs/payments-security.md names a test that exists", () => {
  const text = readFileSync(page, "utf8");
  const named = [...text.matchAll(/\[([^\]]+)\]\((\.\.\/test\/[^)]+)\)/g)];
  expect(named.length).toBeGreaterThan(40);
  const missing = named.filter(([, title = "", path = ""]) => {
    const file = new URL(path, page);
    return !existsSync(file) || !isBeginningOfOne(title, readFileSync(file, "utf8"));
  });
  expect(missing.map(([, title, path]) => `${path}: ${title}`)).toEqual([]);
  const rows = text.split("\n").filter((line) => /^\| (?!Attack|---)/.test(line));
  expect(rows.filter((row) => !row.includes("](../test/"))).toEqual([]);
});

/** Whether exactly one string of the source begins with the title, and the title occurs nowhere else. A title that is cut ends in "…". */
function isBeginningOfOne(title: string, source: string): boolean {
  const [before = "", , ...others] = source.split(title.replace(/ …$/, ""));
  return others.length === 0 && /["'`]$/.test(before) && before !== source;
}
