import type { ProgramDeps } from "./program-deps.ts";
import { type Column, createTable } from "./table.ts";
import { jsonLine, plain } from "./text.ts";

/** Describes how one kind of item is listed. */
type Format<Item> = {
  columns: readonly Column[];
  /** Returns a cell for each column. */
  toCells: (item: Item) => readonly string[];
  toJson: (item: Item) => object;
  /** Returns the id by which other commands name the item. */
  toName: (item: Item) => string;
};

/**
 * Creates a listing, which prints items one by one, and at the end their number. By --output, the items become a table,
 * one JSON object on each line, or only ids. With JSON or ids, the number goes to stderr, so that scripts read only
 * items on stdout.
 */
export function createListing<Item>(
  { print, say, note, paint, terminal, form }: ProgramDeps,
  { columns, toCells, toJson, toName }: Format<Item>,
) {
  const end = (count: string): void => note(`${count}\n`);
  if (form() === "json") return { add: (item: Item): void => print(jsonLine(toJson(item))), end };
  if (form() === "name") return { add: (item: Item): void => print(`${plain(toName(item))}\n`), end };
  const isWide = form() === "wide";
  const isShown = (_: unknown, i: number): boolean => isWide || columns[i]?.isWide !== true;
  const screen = isWide ? undefined : terminal.columns;
  const table = createTable(columns.filter(isShown), { screen, print, say, paint });
  return {
    add: (item: Item): void => table.add(toCells(item).filter(isShown)),
    end(count: string): void {
      table.end();
      say(`${count}\n`);
    },
  };
}
