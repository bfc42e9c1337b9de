import stringWidth from "string-width";
import type { Tone } from "./output.ts";
import { plain } from "./text.ts";

export type Column = {
  heading: string;
  /** In its place if the screen is too narrow for all. */
  shortHeading?: string;
  /** How narrow the column may be cut. Without it, as for an id, nothing of it is ever cut. */
  cutTo?: number;
  /** Whether it is shown only in a wide table. */
  isWide?: boolean;
  alignRight?: boolean;
  /** How a cell is coloured. */
  tone?: (cell: string) => Tone | undefined;
};

/** Most text is ASCII, and a list may have a million rows. */
function displayWidth(text: string): number {
  return /^[ -~]*$/.test(text) ? text.length : stringWidth(text);
}

type Place = {
  /** The width of the screen; undefined for output that goes elsewhere, of which nothing is cut. */
  screen: number | undefined;
  print: (text: string) => void;
  /** Writes the headings. */
  say: (text: string) => void;
  paint: (tone: Tone | undefined, text: string) => string;
};

const GAP = "  ";
const INDENT = "  ";
/** How many rows decide how wide the columns are. */
const LOOKED_AT = 200;

/**
 * Prints rows as they come, under headings. The columns are as wide as the first rows need. If they do not fit the screen,
 * columns that may be are cut, with an ellipsis; if that is not enough, the rest of a row goes below its beginning.
 */
export function createTable(columns: readonly Column[], { screen, print, say, paint }: Place) {
  const held: string[][] = [];
  let layout: Layout | undefined;

  const printRow = (cells: readonly string[]): void => print(rowOf(layout ?? [], columns, cells, paint));
  const begin = (): void => {
    layout = fitted(columns, held, screen);
    const headings = headingsOf(columns, layout);
    say(rowOf(layout, columns, headings, (_tone, text) => paint("faint", text)));
    for (const cells of held.splice(0)) printRow(cells);
  };
  return {
    add(given: readonly string[]): void {
      const cells = given.map(plain);
      if (layout !== undefined) printRow(cells);
      else held.push(cells);
      if (held.length === LOOKED_AT) begin();
    },
    /** Prints what is still held, and the headings also if there are no rows. */
    end(): void {
      if (layout === undefined) begin();
    },
  };
}

/** The columns of each line that a row takes, by their index, and how wide they are. */
type Layout = readonly (readonly { column: number; width: number; isCut: boolean }[])[];

/** Without a screen there is room for all. */
function fitted(
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
  const least = wanted.map((width, i) => leastOf(columns[i], width));
  return linesOf(least, screen).map((line, n) => {
    const room = screen - (n === 0 ? 0 : INDENT.length);
    const widths = shrunk(
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

function leastOf(column: Column | undefined, wanted: number): number {
  if (column?.cutTo === undefined) return wanted;
  return Math.min(wanted, Math.max(column.cutTo, shortest(column).length));
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP.length * Math.max(0, widths.length - 1);
}

/** The columns, in order, on as many lines as they need if each is as narrow as it may be. */
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

/** Takes from the widest of those that may be narrower, until all fit. */
function shrunk(wanted: readonly number[], least: readonly number[], room: number): number[] {
  const widths = [...wanted];
  for (let over = widthOf(widths) - room; over > 0; over -= 1) {
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

/** The beginning of a text that takes at most so many columns of a screen, with an ellipsis if something is left out. */
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

/** A text in lines that fit the screen, broken between words, each with the indent. Without a screen it is one line. */
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
