// Counts expressions that make a sentence hard to read (CONTRIBUTING.md has the six rules), in three kinds of prose: strings that users
// read, documents, and comments. No folder may have more than prose-baseline.json allows it.
//   node .ci/prose.mjs                   compares with the baseline
//   node .ci/prose.mjs --list PATH…      shows each place, with the expression
//   node .ci/prose.mjs --text PATH…      shows the strings that users read, and nothing else
//   node .ci/prose.mjs --update          lowers the baseline
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { parseSync } from "rolldown/experimental";

const BASELINE = ".ci/prose-baseline.json";
const ROOTS = [
  "services",
  "shared",
  "bench",
  "docs",
  "config",
  ".ci",
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
];
const MOST_WORDS = 30;
/** Elements whose text belongs to the sentence around them. */
const INLINE = new Set(["a", "b", "br", "code", "em", "i", "kbd", "small", "span", "strong", "time"]);

/** Patterns for the start of a sentence, unless the sentence is a question. */
const OPENINGS = [
  ["opens with What, Who, Whoever", /^(What|Who|Whoever|Whatever|Whose)\b/],
  ["opens with Of", /^Of (a|an|the|those|these|each|one|all|its|whom|which|them)\b/],
  ["opens with In which, Under which", /^(In|Under|Of|On|By|With|From|At|For) (which|whom|whose)\b/],
  ["opens with So many", /^So (many|much|long|large|few|often)\b/],
];
/** Patterns for the start of a comment only. */
const COMMENT_OPENINGS = [["a comment opens with The same, On, Where", /^(The same\b(?! as)|On\b|Where\b)/]];
const ANYWHERE = [
  ["whoever, whatever", /\b(whoever|whomever|whatever|whichever)\b/i],
  ["nobody, somebody, anybody", /\b(nobody|somebody|anybody)\b/i],
  ["for who, of who", /\b(for|of|to|by|from) who\b/i],
  [
    "is to (must, will)",
    /\b(is|are|was|were) to (be|have|do|see|get|say|take|stop|think|come|go|know|give|make)\b/i,
  ],
  ["any more, no more (no longer)", /\b(any more|no more)\b(?! than)/i],
  [
    "so many, so long (at most N)",
    /\b(so many|so long|so large|so much) (of|a|bytes|ms)\b|\bafter so long\b/i,
  ],
  ["anew, by now", /\b(anew|by now)\b/i],
  [
    "stands for, lies in",
    /\b(stands for|stands (on|in|beside|behind|above)|lies (in|on|beside|behind|above))\b/i,
  ],
  ["lets go, gives way (evict, shed)", /\b(lets? go|gives? way|gave way|giving way)\b/i],
  ["is none", /\b(is|are|was|were) none\b/i],
  ["is told, tells of", /\b(is|are|was|were|be|been|being) told\b|\btells? (of|nobody|producers|it)\b/i],
  ["what became of", /\bwhat (came|comes|has come|became|becomes|become) (of|to)\b/i],
  ["in hand, under way (in flight)", /\b(in hand|under way)\b/i],
  ["put off (postpone)", /\b(put|puts|putting) off\b/i],
  ["turned away (refused)", /\bturn(s|ed)? away\b/i],
  ["has no word for, for want of", /\bfor want of\b/i],
  ["all the same, all there is", /\b(all the same|all there is)\b/i],
  [`a sentence of more than ${MOST_WORDS} words`, { test: (sentence) => wordsIn(sentence) > MOST_WORDS }],
];

const [mode, ...paths] = process.argv.slice(2);
const places = filesIn(paths.length > 0 ? paths : ROOTS).flatMap(proseOf);
if (mode === "--text")
  show(
    places
      .filter(({ kind }) => kind === "strings")
      .map(({ at, text }) => `${at}: ${text.replace(/\s*\n\s*/g, " | ")}`),
  );
else if (mode === "--list")
  show(
    places.flatMap(faultsOf).map(({ at, kind, fault, sentence }) => `${at}: ${kind}: [${fault}] ${sentence}`),
  );
else if (mode === "--update") writeFileSync(BASELINE, `${JSON.stringify(countFaults(), null, 2)}\n`);
else compare(countFaults(), JSON.parse(readFileSync(BASELINE, "utf8")));

function show(lines) {
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
}

/** Exits with 1 if a folder has more faults than the baseline allows. Fewer faults also fail, because the baseline must fall with them. */
function compare(found, allowed) {
  const folders = [...new Set([...Object.keys(found), ...Object.keys(allowed)])];
  const wrong = folders.flatMap((folder) =>
    ["strings", "docs", "comments"].flatMap((kind) => {
      const [now, most] = [found[folder]?.[kind] ?? 0, allowed[folder]?.[kind] ?? 0];
      if (now < most)
        return `${folder}: ${kind} fell from ${most} to ${now}: run "node .ci/prose.mjs --update"`;
      return now > most
        ? `${folder}: ${kind} rose from ${most} to ${now}: see "node .ci/prose.mjs --list ${folder}"`
        : [];
    }),
  );
  for (const line of wrong) console.error(line);
  process.exit(wrong.length > 0 ? 1 : 0);
}

/** Number of faults by folder and kind. Folders without faults are left out. */
function countFaults() {
  const counts = {};
  for (const { at, kind } of places.flatMap(faultsOf)) {
    const folder = /^[^/]+\/[^/:]+(?=\/)/.exec(at)?.[0] ?? at.split(/[/:]/)[0];
    counts[folder] = { ...counts[folder], [kind]: (counts[folder]?.[kind] ?? 0) + 1 };
  }
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function faultsOf({ at, kind, text }) {
  return sentencesOf(text).flatMap((sentence, index) => {
    const patterns = [
      ...(sentence.endsWith("?") ? [] : OPENINGS),
      ...(kind === "comments" && index === 0 ? COMMENT_OPENINGS : []),
      ...ANYWHERE,
    ];
    return patterns
      .filter(([, pattern]) => pattern.test(sentence))
      .map(([fault]) => ({ at, kind, fault, sentence }));
  });
}

function sentencesOf(text) {
  return text.split(/(?<=[.!?])["”)]?\s+(?=[A-Z"“`([])|\n{2,}/).map((sentence) => sentence.trim());
}

function wordsIn(sentence) {
  return sentence.split(/\s+/).filter((word) => /\w/.test(word)).length;
}

function filesIn(roots) {
  const listed = execFileSync(
    "git",
    ["ls-files", "--cached", "--others", "--exclude-standard", "--", ...roots],
    { encoding: "utf8", maxBuffer: 2 ** 26 },
  );
  return listed
    .split("\n")
    .filter((path) => existsSync(path) && !/(^|\/)(dist|vendor)\/|\.d\.ts$|^\.ci\/prose\.mjs$/.test(path));
}

/** The prose of a file, as a list of `{ at: "path:line", kind, text }`. Each entry is a paragraph, a comment or a string. */
function proseOf(path) {
  const source = readFileSync(path, "utf8");
  const at = (line) => `${path}:${line}`;
  if (path.endsWith(".md"))
    return paragraphsOf(source).map(({ line, text }) => ({ at: at(line), kind: "docs", text }));
  if (/\.(ts|tsx|mjs)$/.test(path)) {
    const { program, comments } = parseSync(path, source);
    const lineAt = lineFinder(source);
    return [
      ...commentsOf(comments, lineAt).map(({ line, text }) => ({ at: at(line), kind: "comments", text })),
      ...stringsOf(program).map(({ start, text }) => ({ at: at(lineAt(start)), kind: "strings", text })),
    ];
  }
  const mark = { lua: /^\s*--+\s?(?![[@])(.*)$/, toml: /^\s*#\s?(.*)$/ }[path.split(".").at(-1)];
  if (mark === undefined) return [];
  const lines = source.split("\n").map((line) => mark.exec(line)?.[1]);
  return joined(lines).map(({ line, text }) => ({ at: at(line), kind: "comments", text }));
}

function lineFinder(source) {
  const starts = [0];
  for (let at = source.indexOf("\n"); at >= 0; at = source.indexOf("\n", at + 1)) starts.push(at + 1);
  return (offset) => {
    let [low, high] = [0, starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= offset) low = middle;
      else high = middle;
    }
    return low + 1;
  };
}

function withoutCode(text) {
  return text.replace(/`[^`]*`/g, "X").replace(/\]\([^)]*\)/g, "]");
}

/** Joins neighbouring lines to one text. `undefined` ends a text. An item of a list, or a row of a table, is a sentence of its own. */
function joined(lines) {
  const texts = [];
  let open;
  lines.forEach((line, index) => {
    if (line === undefined || line.trim() === "") open = undefined;
    else if (open !== undefined) open.text += `${/^\s*- |\S {2,}\S/.test(line) ? "\n\n" : " "}${line.trim()}`;
    else {
      open = { line: index + 1, text: line.trim() };
      texts.push(open);
    }
  });
  return texts.map(({ line, text }) => ({ line, text: withoutCode(text) }));
}

/** Paragraphs, list items and table cells. Headings, table headers and code are left out, because they are no sentences. */
function paragraphsOf(source) {
  let isFenced = false;
  const lines = source.split("\n");
  const prose = lines.map((line, index) => {
    if (/^\s*(```|~~~)/.test(line)) isFenced = !isFenced;
    const isHead = /^\|[\s:|-]+\|?$/.test(lines[index + 1] ?? "") || /^\|[\s:|-]+\|?$/.test(line);
    return isFenced || isHead || /^\s*(```|~~~|#|<)/.test(line) ? undefined : line;
  });
  const rows = prose.flatMap((line, index) =>
    line?.startsWith("|")
      ? line.split("|").map((cell) => ({ line: index + 1, text: withoutCode(cell.trim()) }))
      : [],
  );
  const texts = prose.flatMap((line) => {
    if (line === undefined || line.startsWith("|")) return [undefined];
    const item = /^\s*(?:[-*>]|\d+\.)\s+(.*)$/.exec(line);
    return [item === null ? line : `\0${item[1]}`];
  });
  return [...rows, ...items(texts)].filter(({ text }) => text !== "");
}

/** Joins the lines of each list item. A NUL marks the first line of an item. */
function items(lines) {
  const [texts, numbers] = [[], []];
  lines.forEach((line, index) => {
    if (line?.startsWith("\0")) {
      texts.push(undefined);
      numbers.push(index + 1);
    }
    texts.push(line?.replace("\0", ""));
    numbers.push(index + 1);
  });
  return joined(texts).map(({ line, text }) => ({
    line: numbers[line - 1],
    text: text.replace(/^\*\*|\*\*/g, ""),
  }));
}

/** Comments. Line comments on neighbouring lines are one comment. */
function commentsOf(comments, lineAt) {
  const lines = [];
  for (const { type, value, start } of comments) {
    const first = lineAt(start);
    if (type === "Line" && !/^\s*(biome-ignore|@ts-|#region|@vitest)/.test(value))
      lines[first - 1] = value.trim();
    if (type === "Block")
      value.split("\n").forEach((line, index) => {
        lines[first - 1 + index] = line.replace(/^\s*\*+\s?/, "");
      });
  }
  return joined(Array.from(lines));
}

/** Strings that contain a space: literals, templates with X for each value, concatenations of both, and the text of elements. */
function stringsOf(program) {
  const found = [];
  const add = (node, text) => {
    if (/[A-Za-z]\S*\s+\S*[A-Za-z]/.test(text)) found.push({ start: node.start, text: text.trim() });
  };
  visit(program);
  return found;

  function visit(node) {
    if (Array.isArray(node)) return node.forEach(visit);
    if (typeof node?.type !== "string" || (/^(Import|Export)/.test(node.type) && node.source)) return;
    if (/^JSX(Element|Fragment)$/.test(node.type)) return element(node);
    const text = textOf(node);
    if (text !== undefined) add(node, text.replaceAll("\n", "\n\n"));
    valuesIn(node, text !== undefined).forEach(visit);
  }

  /** The parts of a node that may contain further strings. A template or a concatenation is one text, so only its values are visited. */
  function valuesIn(node, isText) {
    if (!isText) return Object.values(node);
    return node.expressions ?? [node.left, node.right].filter((side) => side && textOf(side) === undefined);
  }

  function element(node) {
    add(node, node.children.map(jsxText).join(""));
    visit(node.openingElement?.attributes ?? []);
    node.children.forEach(visitChild);
  }

  function visitChild(child) {
    if (isInline(child)) {
      visit(child.openingElement.attributes);
      child.children.forEach(visitChild);
    } else if (child.type === "JSXExpressionContainer") {
      valuesIn(child.expression, textOf(child.expression) !== undefined).forEach(visit);
    } else visit(child);
  }

  function jsxText(child) {
    if (child.type === "JSXText") return child.value.replace(/\s+/g, " ");
    if (child.type === "JSXExpressionContainer") return textOf(child.expression) ?? "X";
    return isInline(child) ? child.children.map(jsxText).join("") : "\n\n";
  }

  function isInline(child) {
    return child.type === "JSXElement" && INLINE.has(child.openingElement.name.name);
  }
}

function textOf(node) {
  if (node.type === "Literal" && typeof node.value === "string") return node.value;
  if (node.type === "TemplateLiteral") return node.quasis.map(({ value }) => value.cooked ?? "").join("X");
  if (node.type !== "BinaryExpression" || node.operator !== "+") return undefined;
  const [left, right] = [textOf(node.left), textOf(node.right)];
  return left === undefined && right === undefined ? undefined : `${left ?? "X"}${right ?? "X"}`;
}
