import stringWidth from "string-width";
import type { Tone } from "./output.ts";
import { plain } from "./text.ts";

export type Column = {
  heading: string;
  /** Heading on a screen that is too narrow for all columns. */
  shortHeading?: string;
  /** Minimum width of the column when it is narrowed to fit the screen. If undefined, as for an id, the column is never cut. */
  cutTo?: number;
  /** Whether only a wide table shows the column. */
  isWide?: boolean;
  alignRight?: boolean;
  /** Returns the tone of a cell. */
  tone?: (cell: string) => Tone | undefined;
};

/** Returns the width of a text in screen columns. ASCII has a fast path, because a list may have a million rows. */
function displayWidth(text: string): number {
  return /^[ -~]*$/.test(text) ? text.length : stringWidth(text);
}

type Place = {
  /** Width of the screen; undefined for other outputs, where nothing is cut. */
  screen: number | undefined;
  print: (text: string) => void;
  /** Writes the headings. Unlike `print`, it writes nothing with --quiet. */
  say: (text: string) => void;
  paint: (tone: Tone | undefined, text: string) => string;
};

const GAP = "  ";
const INDENT = "  ";
/** Number of rows that are held back to find the widths of the columns. Rows after them are printed at once. */
const SAMPLED_ROWS = 200;

/**
 * Creates a table, which prints rows under headings. The columns are as wide as the first rows need. If they do not fit
 * the screen, cells are cut with an ellipsis. If that is not enough, each row is printed on several lines.
 */
export function createTable(columns: readonly Column[], { screen, print, say, paint }: Place) {
  const held: string[][] = [];
  let layout: Layout | undefined;

  const printRow = (cells: readonly string[]): void => print(rowOf(layout ?? [], columns, cells, paint));
  const begin = (): void => {
    layout = fitColumns(columns, held, screen);
    const headings = headingsOf(columns, layout);
    say(rowOf(layout, columns, headings, (_tone, text) => paint("faint", text)));
    for (const cells of held.splice(0)) printRow(cells);
  };
  return {
    add(given: readonly string[]): void {
      const cells = given.map(plain);
      if (layout !== undefined) printRow(cells);
      else held.push(cells);
      if (held.length === SAMPLED_ROWS) begin();
    },
    /** Prints the headings and rows that are still held back. */
    end(): void {
      if (layout === undefined) begin();
    },
  };
}

/** Layout of a row: its lines, and for each line its columns (by index) with their widths. */
type Layout = readonly (readonly { column: number; width: number; isCut: boolean }[])[];

/** Chooses the width of each column, and on which line of a row it is. If the output is not a screen, no column is cut. */
function fitColumns(
  columns: readonly Column[],
  rows: readonly string[][],
  screen: number = Number.POSITIVE_INFINITY,
): Layout {
  const needed = (heading: (column: Column) => string): number[] =>
    columns.map((column, i) =>
      Math.max(heading(column).length, ...rows.map((cells) => displayWidth(cells[i] ?? ""))),
    );
  const full = needed(({ heading }) => heading);
  const wanted = widthOf(full) <= screen ? full : needed(shortest);
  const least = wanted.map((width, i) => minWidthOf(columns[i], width));
  return linesOf(least, screen).map((line, n) => {
    const room = screen - (n === 0 ? 0 : INDENT.length);
    const widths = shrinkColumns(
      line.map((i) => wanted[i] ?? 0),
      line.map((i) => least[i] ?? 0),
      room,
    );
    return line.map((column, i) => ({
      column,
      width: widths[i] ?? 0,
      isCut: Number.isFinite(screen) && columns[column]?.cutTo !== undefined,
    }));
  });
}

function headingsOf(columns: readonly Column[], layout: Layout): string[] {
  const widths = new Map(layout.flat().map(({ column, width }) => [column, width]));
  return columns.map((column, i) =>
    column.heading.length <= (widths.get(i) ?? 0) ? column.heading : shortest(column),
  );
}

function shortest({ heading, shortHeading = heading }: Column): string {
  return shortHeading;
}

function minWidthOf(column: Column | undefined, wanted: number): number {
  if (column?.cutTo === undefined) return wanted;
  return Math.min(wanted, Math.max(column.cutTo, shortest(column).length));
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP.length * Math.max(0, widths.length - 1);
}

/** Distributes the columns, in order, over as many lines as they need at their minimum widths. */
function linesOf(least: readonly number[], screen: number): number[][] {
  const lines: number[][] = [];
  let left = -1;
  for (const [column, width] of least.entries()) {
    const line = lines.at(-1);
    if (line !== undefined && width + GAP.length <= left) {
      line.push(column);
      left -= width + GAP.length;
    } else {
      left = screen - width - (line === undefined ? 0 : INDENT.length);
      lines.push([column]);
    }
  }
  return lines;
}

/** Narrows the widest columns until all fit into `room`, but none below its width in `least`. */
function shrinkColumns(wanted: readonly number[], least: readonly number[], room: number): number[] {
  const widths = [...wanted];
  for (let excess = widthOf(widths) - room; excess > 0; excess -= 1) {
    const spare = widths.map((width, i) => (width > (least[i] ?? 0) ? width : -1));
    const widest = spare.indexOf(Math.max(...spare));
    if (spare[widest] === -1) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

function rowOf(
  layout: Layout,
  columns: readonly Column[],
  cells: readonly string[],
  paint: Place["paint"],
): string {
  const lines = layout.map((line, n) => {
    const parts = line.map(({ column, width, isCut }, i) => {
      const { alignRight = false, tone } = columns[column] ?? { heading: "" };
      const cell = cells[column] ?? "";
      const text = isCut ? cutToWidth(cell, width) : cell;
      const space = " ".repeat(Math.max(0, width - displayWidth(text)));
      const isLast = i === line.length - 1;
      const painted = paint(tone?.(cell), text);
      return alignRight ? space + painted : painted + (isLast ? "" : space);
    });
    return (n === 0 ? "" : INDENT) + parts.join(GAP);
  });
  return `${lines.map((line) => line.trimEnd()).join("\n")}\n`;
}

const letters = new Intl.Segmenter("en", { granularity: "grapheme" });

/** Returns the start of a text that fits `width` columns of a screen, with an ellipsis if the text is cut. */
export function cutToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let [kept, taken] = ["", 0];
  for (const { segment } of letters.segment(text)) {
    taken += displayWidth(segment);
    if (taken > width - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** Wraps a text between words into indented lines that fit the screen. Without a screen, it stays on one line. */
export function wrapped(text: string, screen: number | undefined, indent: string): string {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = lines.length === 0 ? word : `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && indent.length + displayWidth(longer) > (screen ?? Number.POSITIVE_INFINITY))
      lines.push(word);
    else lines[Math.max(0, lines.length - 1)] = longer;
  }
  return lines.map((line) => indent + line).join("\n");
}
