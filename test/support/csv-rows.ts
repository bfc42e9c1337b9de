/** Parses a CSV file (RFC 4180) into rows by the names in its first line. Throws if it is invalid. */
export function csvRows(text: string): Record<string, string>[] {
  const [names = [], ...rows] = linesOf(text);
  if (rows.some((row) => row.length !== names.length)) throw new Error("a line has more or fewer cells");
  return rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i] ?? ""])));
}

/** Matches a cell, with or without quotes, and its separator. */
const CELL = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y;

function linesOf(text: string): string[][] {
  const lines: string[][] = [[]];
  CELL.lastIndex = 0;
  for (let at = 0; at < text.length; at = CELL.lastIndex) {
    const [, quoted, plain = "", end] = CELL.exec(text) ?? [];
    if (end === undefined) throw new Error(`no CSV at ${at}: ${text.slice(at, at + 40)}`);
    lines.at(-1)?.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end !== ",") lines.push([]);
  }
  return lines.slice(0, -1);
}
