export type Cell = string | number;

/** Formats a table. The first column is text. The other columns are numbers, and are right-aligned. */
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

/**
 * Formats a number with as many decimals as its size needs: two below 10, one below 100, none from 100 or for an integer.
 * Returns a dash for NaN, because nothing was measured then.
 */
function toText(cell: Cell): string {
  if (typeof cell === "string") return cell;
  if (Number.isNaN(cell)) return "–";
  const digits = Math.abs(cell) >= 100 || Number.isInteger(cell) ? 0 : Math.abs(cell) >= 10 ? 1 : 2;
  return cell.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function mebibytes(bytes: number): number {
  return bytes / (1024 * 1024);
}
