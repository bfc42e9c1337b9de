import type { ProgramDeps } from "./program-deps.ts";
import { jsonLine, plain } from "./text.ts";

/** How one kind of item is listed. */
type Format<Item> = {
  headings: readonly string[];
  /** The width of each column but the last. */
  widths: readonly number[];
  toCells: (item: Item) => readonly string[];
  /** Shortens a row of the table before it is printed. */
  trim: (row: string) => string;
  toJson: (item: Item) => object;
};

/**
 * Prints items one by one, and then how many they are: as a table, or with `json` as one JSON object a line, the count then on
 * stderr.
 */
export function createListing<Item>(
  { print, printError }: ProgramDeps,
  json: boolean | undefined,
  { headings, widths, toCells, trim, toJson }: Format<Item>,
) {
  const printRow = (cells: readonly string[]): void => {
    const row = cells.map((cell, i) => plain(cell).padEnd(widths[i] ?? 0)).join("  ");
    print(`${trim(row)}\n`);
  };
  if (!json) printRow(headings);
  return {
    add(item: Item): void {
      if (json) print(jsonLine(toJson(item)));
      else printRow(toCells(item));
    },
    end(count: string): void {
      if (json) printError(`${count}\n`);
      else print(`${count}\n`);
    },
  };
}
