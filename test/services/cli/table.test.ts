import stringWidth from "string-width";
import { expect, test } from "vitest";
import { type Column, createTable, cutToWidth, wrapped } from "../../../services/cli/table.ts";

const ID = "c_0123456789abcdef0123456789abcdef";
const COLUMNS: Column[] = [
  { heading: "CALL" },
  { heading: "COUNT", alignRight: true },
  { heading: "PATH", cutTo: 8 },
  { heading: "REASON", cutTo: 12 },
];

function tableOf(rows: readonly string[][], screen: number | undefined): string[] {
  let shown = "";
  const print = (text: string): void => {
    shown += text;
  };
  const table = createTable(COLUMNS, { screen, print, say: print, paint: (_tone, text) => text });
  for (const row of rows) table.add(row);
  table.end();
  return shown.trimEnd().split("\n");
}

const LONG = "the body says no, because of what is in it";

test("without a screen columns are aligned, too, and nothing is cut", () => {
  expect(
    tableOf(
      [
        [ID, "7", "/a-long-path-of-many", LONG],
        [ID, "8", "/a", "no"],
      ],
      undefined,
    ),
  ).toEqual([
    `CALL                                COUNT  PATH                  REASON`,
    `${ID}      7  /a-long-path-of-many  ${LONG}`,
    `${ID}      8  /a                    no`,
  ]);
});

test("on a wide screen columns are as wide as the rows need", () => {
  expect(tableOf([[ID, "7", "/a", "no"]], 200)).toEqual([
    `CALL                                COUNT  PATH  REASON`,
    `${ID}      7  /a    no`,
  ]);
});

test("on a narrower screen the widest column that permits it is cut first, with an ellipsis", () => {
  const [, row = ""] = tableOf([[ID, "7", "/a", LONG]], 70);
  expect(row).toBe(`${ID}      7  /a    ${LONG.slice(0, 20)}…`);
  expect(row).toHaveLength(70);
});

test("if even the minimum widths do not fit, the rest of a row goes to further lines, and ids are complete", () => {
  expect(tableOf([[ID, "7", "/a", LONG]], 44)).toEqual([
    "CALL                                COUNT",
    "  PATH  REASON",
    `${ID}      7`,
    `  /a    ${LONG.slice(0, 35)}…`,
  ]);
  expect(tableOf([[ID, "7", "/a", LONG]], 20).some((line) => line.startsWith(ID))).toBe(true);
});

test("wide characters count as the two columns that they take, and a letter of several code points is not split", () => {
  for (const width of [5, 6, 7, 8])
    expect(stringWidth(cutToWidth("金額が数字ではありません", width))).toBeLessThanOrEqual(width);
  expect(cutToWidth("金額が数", 6)).toBe("金額…");
  expect(cutToWidth("ab👩‍👩‍👧cd", 4)).toBe("ab…");
  expect(cutToWidth("ab👩‍👩‍👧cd", 6)).toBe("ab👩‍👩‍👧cd");
});

test("control characters of a cell, including line breaks, become spaces", () => {
  expect(tableOf([[ID, "7", "/a", "a\x1b[31m\nb\x9bc\u202ed"]], 200)[1]).toMatch(/ a \[31m b c d$/);
});

test("a text is broken between words to fit the screen, and stays one line without a screen", () => {
  expect(wrapped("one two three four", 12, "  ")).toBe("  one two\n  three four");
  expect(wrapped("one two three four", undefined, "  ")).toBe("  one two three four");
});
