import fc from "fast-check";
import { parse } from "smol-toml";
import { expect, test } from "vitest";
import { linesIn } from "../../../shared/config/toml-lines.ts";

type Path = readonly (string | number)[];
/** A piece of a document, and the lines, from 0, of the keys that it names. */
type Piece = { text: string; places: readonly { path: Path; line: number }[] };

const bare = fc.stringMatching(/^[A-Za-z0-9_-]{1,6}$/);
const quoted = fc.string({ unit: "grapheme", maxLength: 6 });
/** A key, as a value and in a notation: bare, basic or literal. */
const key = fc.oneof(
  bare.map((name) => ({ name, written: name })),
  quoted.map((name) => ({ name, written: JSON.stringify(name) })),
  fc.stringMatching(/^[a-z."#=[\]{} ]{0,6}$/).map((name) => ({ name, written: `'${name}'` })),
);

/** One value over several lines that look like keys, heads, comments and ends of strings. */
const MISLEADING = ["[[endpoints]]", "a = 1", "# no comment", "]", "}", "[a.b]", "''", '"', "a.b = {"];
const longText = fc.array(fc.constantFrom(...MISLEADING), { maxLength: 4 }).map((lines) => lines.join("\n"));
const scalar = fc.oneof(
  fc.constantFrom("1", "-0.5e3", "0xff", "true", "inf", "1979-05-27T07:32:00Z", "'a # b'", '"\\" = ["'),
  longText.map((text) => `'''\n${text.replaceAll("''", "'-'")}'''`),
  longText.map((text) => `"""${text.replaceAll('"', "'")}\\\n   """`),
);

const plain = (text: string): Piece => ({ text, places: [] });
const linesOf = (text: string): number => text.split("\n").length - 1;

/** Joins pieces, each at its own path below the root. */
function joined(
  pieces: readonly (Piece & { at: Path })[],
  [open, between, close]: [string, string, string],
): Piece {
  let text = open;
  const places = pieces.flatMap(({ at, text: own, places: inner }, index) => {
    if (index > 0) text += between;
    const line = linesOf(text);
    text += own;
    const below = inner.map((place) => ({ path: [...at, ...place.path], line: line + place.line }));
    return [{ path: at, line }, ...below];
  });
  return { text: text + close, places };
}

const distinctKeys = { maxLength: 3, selector: ([{ name }]: [{ name: string }, unknown]) => name };

/** A value, possibly a multi-line list or an inline table. Both may contain such values again. */
const { value } = fc.letrec<{ value: Piece }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 2 },
    scalar.map(plain),
    fc
      .tuple(fc.array(tie("value"), { maxLength: 3 }), fc.constantFrom(", ", ",\n  ", " # a, b]\n,"))
      .map(([elements, between]) =>
        joined(
          elements.map((element, index) => ({ ...element, at: [index] })),
          ["[ # [\n", between, "\n]"],
        ),
      ),
    fc.uniqueArray(fc.tuple(key, tie("value")), distinctKeys).map((members) =>
      joined(
        members.map(([name, member]) => keyed([name], member)),
        ["{ ", ", ", " }"],
      ),
    ),
  ),
}));

type Key = { name: string; written: string };

function keyed(keys: readonly Key[], { text, places }: Piece): Piece & { at: Path } {
  return {
    at: keys.map(({ name }) => name),
    text: `${keys.map(({ written }) => written).join(" . ")} = ${text}`,
    places,
  };
}

const line = fc
  .tuple(fc.array(key, { minLength: 1, maxLength: 3 }), value)
  .map(([keys, member]) => keyed(keys, member));
const body = fc.array(line, { maxLength: 3 }).map((lines) => joined(lines, ["", "\n\n# [a] = 1\n", "\n"]));
const head = fc.tuple(fc.array(key, { minLength: 1, maxLength: 3 }), fc.boolean(), body);

/**
 * A document of such lines and tables. Documents that TOML refuses (because of a repeated key) are skipped by the
 * property.
 */
const document = fc.tuple(body, fc.array(head, { maxLength: 4 })).map(([top, tables]) => {
  const counts = new Map<string, number>();
  let { text, places } = top as { text: string; places: { path: Path; line: number }[] };
  for (const [keys, isList, inner] of tables) {
    const names = keys.map(({ name }) => name);
    const id = JSON.stringify(names);
    const count = counts.get(id) ?? 0;
    counts.set(id, count + 1);
    const at = isList ? [...names, count] : names;
    const written = keys.map((each) => each.written).join(".");
    const start = linesOf(text);
    text += `${isList ? `[[ ${written} ]]` : `[${written}]`} # head\n${inner.text}`;
    places = [
      ...places,
      { path: at, line: start },
      ...inner.places.map((place) => ({ path: [...at, ...place.path], line: start + 1 + place.line })),
    ];
  }
  return { text, places };
});

function valueAt(table: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (inner, part) => (inner as Record<string | number, unknown> | undefined)?.[part],
    table,
  );
}

function isToml(text: string): boolean {
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}

test("the line of each key, element and table of any document is the one on which it is written", () => {
  let seen = 0;
  fc.assert(
    fc.property(document, ({ text, places }) => {
      fc.pre(isToml(text));
      const lineOf = linesIn(text);
      const table = parse(text);
      // The index in a list of tables below another list is not known here, so only existing paths are checked.
      for (const { path, line } of places.filter(({ path }) => valueAt(table, path) !== undefined)) {
        expect([path, lineOf(path)], text).toEqual([path, line + 1]);
        seen += 1;
      }
    }),
    { numRuns: 500 },
  );
  expect(seen).toBeGreaterThan(1000);
});

test("a missing key is on the line of its table, and a missing key of the document itself has no line", () => {
  const lineOf = linesIn("a = 1\n\n[[list]]\nb = 1\n\n[[list]]\nc = { d = [\n1,\n{ e = 1 }] }\n");
  expect(lineOf(["list", 1, "path"])).toBe(6);
  expect(lineOf(["list", 1, "c", "d", 1, "f"])).toBe(9);
  expect(lineOf(["nowhere", "at", "all"])).toBeUndefined();
  expect(lineOf([])).toBeUndefined();
});

test("lines are counted with Windows line ends, too, and keys are found after a byte order mark", () => {
  const lineOf = linesIn('\uFEFFa = 1\r\n"b c".d = 2\r\n[e]\r\nf = """\r\n"""\r\ng = 1\r\n');
  expect([["a"], ["b c", "d"], ["e"], ["e", "f"], ["e", "g"]].map(lineOf)).toEqual([1, 2, 3, 4, 6]);
});
