import { existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { DOCUMENTS, readDocument } from "./blocks.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const PAGES = [...DOCUMENTS, "CHANGELOG.md", "bench/README.md"];

test.each(PAGES)("every link of %s leads to a file of the project, and to a heading of it", (page) => {
  const links = [...textOf(page).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)];
  const broken = links.filter(([, path = "", heading]) => {
    const target = path === "" ? page : relative(root, join(root, dirname(page), path));
    if (!existsSync(join(root, target))) return true;
    return heading !== undefined && !headingsOf(target).includes(heading);
  });
  expect(broken.map(([link]) => link.slice(1))).toEqual([]);
});

function textOf(page: string): string {
  return readDocument(page).replace(/^\s*```[\s\S]*?^\s*```/gm, "");
}

/** The ids that GitHub makes from headings. */
function headingsOf(page: string): string[] {
  const seen = new Map<string, number>();
  return [...textOf(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => {
    const id = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-");
    const times = seen.get(id) ?? 0;
    seen.set(id, times + 1);
    return times === 0 ? id : `${id}-${times}`;
  });
}
