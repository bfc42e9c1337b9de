export type Cell = string | number;

/** Formats a table whose first column is text and whose other columns are numbers, right-aligned. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const texts = [head, ...rows.map((row) => row.map(toText))];
  const widths = head.map((_, column) => Math.max(...texts.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row.map((text, i) => (i === 0 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0))).join("  ");
  const [first = [], ...rest] = texts;
  return [line(first), widths.map((width) => "─".repeat(width)).join("  "), ...rest.map(line)]
    .map((text) => `  ${text}`.trimEnd())
    .join("\n");
}

/** Rounds to three significant digits; returns a dash if nothing was measured. */
function toText(cell: Cell): string {
  if (typeof cell === "string") return cell;
  if (Number.isNaN(cell)) return "–";
  const digits = Math.abs(cell) >= 100 || Number.isInteger(cell) ? 0 : Math.abs(cell) >= 10 ? 1 : 2;
  return cell.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function mebibytes(bytes: number): number {
  return bytes / (1024 * 1024);
}
