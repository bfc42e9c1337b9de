import { readdirSync, readFileSync } from "node:fs";

/** A fenced code block. Its info string is a language and further words: how a test uses the block, or the name of its file. */
export type Block = {
  language: string;
  words: readonly string[];
  text: string;
  /** `docs/runner.md:41`, the line of the opening fence. */
  at: string;
};

const root = new URL("../../", import.meta.url);

/** README.md, CONTRIBUTING.md and every page of docs/ and its folders. */
export const DOCUMENTS: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(new URL("docs/", root), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .sort()
    .map((file) => `docs/${file}`),
];

export function readDocument(file: string): string {
  return readFileSync(new URL(file, root), "utf8");
}

/** The fenced blocks of a document, in order. Throws if a fence is not closed. */
export function blocksOf(file: string): Block[] {
  const blocks: Block[] = [];
  let open: (Block & { lines: string[] }) | undefined;
  for (const [i, line] of readDocument(file).split("\n").entries()) {
    const fence = /^\s*```(.*)$/.exec(line);
    if (open === undefined && fence !== null) {
      const [language = "", ...words] = String(fence[1]).split(" ");
      open = { language, words, text: "", at: `${file}:${i + 1}`, lines: [] };
    } else if (open !== undefined && fence !== null) {
      const { lines, ...block } = open;
      blocks.push({ ...block, text: `${lines.join("\n")}\n` });
      open = undefined;
    } else open?.lines.push(line);
  }
  if (open !== undefined) throw new Error(`${open.at}: the fence is not closed`);
  return blocks;
}
