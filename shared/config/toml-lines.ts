import { type AST, parseTOML } from "toml-eslint-parser";

type Path = readonly PropertyKey[];

/** Returns the line of a key, or of the innermost table or list around it; undefined for the document itself. */
export type LineOf = (path: Path) => number | undefined;

/**
 * Finds the lines of a document's keys with a second parser, because smol-toml does not report them. If the second
 * parser cannot read the document, no line is returned: a problem without a line is better than no problem.
 */
export function linesIn(text: string): LineOf {
  const lines = new Map<string, number>();
  try {
    const [document] = parseTOML(text.replace(/^\uFEFF/, ""), { tomlVersion: "1.1" }).body;
    for (const node of document.body) add(lines, [], node);
  } catch {
    lines.clear();
  }
  return (path) => {
    for (let length = path.length; length > 0; length -= 1) {
      const line = lines.get(nameOf(path.slice(0, length)));
      if (line !== undefined) return line;
    }
    return undefined;
  };
}

type Lines = Map<string, number>;
type Part = string | number;

function nameOf(path: Path): string {
  return JSON.stringify(path);
}

function add(lines: Lines, at: readonly Part[], node: AST.TOMLKeyValue | AST.TOMLTable): void {
  const { line } = node.key.loc.start;
  if (node.type === "TOMLTable") {
    addPath(lines, [], node.resolvedKey, line);
    // If a subtable such as [a.b] comes before [a], its line was recorded for [a] too. Now [a] gets its own line.
    lines.set(nameOf(node.resolvedKey), line);
    for (const inner of node.body) add(lines, node.resolvedKey, inner);
    return;
  }
  const keys = node.key.keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value));
  addPath(lines, at, keys, line);
  addValue(lines, [...at, ...keys], node.value);
}

/**
 * Adds the line of a key, and of the tables that it implies, such as `a` for the key `a.b`. The first line of each
 * counts.
 */
function addPath(lines: Lines, at: readonly Part[], keys: readonly Part[], line: number): void {
  for (let length = 1; length <= keys.length; length += 1) {
    const name = nameOf([...at, ...keys.slice(0, length)]);
    if (!lines.has(name)) lines.set(name, line);
  }
}

function addValue(lines: Lines, at: readonly Part[], value: AST.TOMLContentNode): void {
  if (value.type === "TOMLInlineTable") for (const inner of value.body) add(lines, at, inner);
  if (value.type !== "TOMLArray") return;
  for (const [index, element] of value.elements.entries()) {
    lines.set(nameOf([...at, index]), element.loc.start.line);
    addValue(lines, [...at, index], element);
  }
}
