import type { ProgramDeps } from "./program-deps.ts";
import { type Column, createTable } from "./table.ts";
import { jsonLine } from "./text.ts";

/** How one kind of item is listed. */
type Format<Item> = {
  columns: readonly Column[];
  toCells: (item: Item) => readonly string[];
  toJson: (item: Item) => object;
};

/**
 * Prints items one by one, and then how many they are: as a table, or with `json` as one JSON object a line, the count then on
 * stderr.
 */
export function createListing<Item>(
  { print, say, note, paint, terminal }: ProgramDeps,
  json: boolean | undefined,
  { columns, toCells, toJson }: Format<Item>,
) {
  if (json) {
    return {
      add: (item: Item): void => print(jsonLine(toJson(item))),
      end: (count: string): void => note(`${count}\n`),
    };
  }
  const table = createTable(columns, { screen: terminal.columns, print, say, paint });
  return {
    add: (item: Item): void => table.add(toCells(item)),
    end(count: string): void {
      table.end();
      say(`${count}\n`);
    },
  };
}
