import { isDeepStrictEqual } from "node:util";
import type { LoggedEvent } from "../../shared/dev/process.ts";
import { eventLine } from "./event-line.ts";

/** What the demo says, line by line; every statement is checked before it is said. */
export type Stage = {
  scene(title: string): void;
  say(text: string): void;
  /** Says the statement if what was found is what was expected, else says that it is not so, and remembers it. */
  check(statement: string, found: unknown, expected: unknown): void;
  /** Says that something expected did not happen. */
  fail(what: string): void;
  /** Shows a line that a part logged. */
  log(part: string, event: LoggedEvent): void;
  /** Shows what a command printed. */
  output(lines: readonly string[]): void;
  /** How many statements were not so. */
  readonly failures: number;
  /** Says nothing any more. */
  leave(): void;
};

const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const;

type Options = {
  print: (line: string) => void;
  colour: boolean;
  /** Of the screen; what was logged or printed elsewhere is cut to it. */
  columns: number;
};

export function createStage({ print, colour, columns }: Options): Stage {
  const styled = (style: keyof typeof STYLES, text: string) =>
    colour ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text;
  let scenes = 0;
  let failures = 0;
  let left = false;
  const put = (line: string): void => {
    if (!left) print(line);
  };
  const quote = (text: string): void => put(`      ${styled("dim", cut(text, columns - 7))}`);
  const fail = (what: string): void => {
    failures += 1;
    put(`  ${styled("red", "NO")}  ${what}`);
  };
  return {
    scene(title) {
      scenes += 1;
      put(`\n${styled("bold", `${scenes}. ${title}`)}`);
    },
    say: (text) => put(text === "" ? "" : `      ${text}`),
    check(statement, found, expected) {
      if (isDeepStrictEqual(found, expected)) put(`  ${styled("green", "ok")}  ${statement}`);
      else fail(`${statement}: expected ${shown(expected)}, found ${shown(found)}`);
    },
    fail,
    log: (part, event) => quote(`${part.padEnd(8)} | ${eventLine(event)}`),
    output(lines) {
      for (const line of lines) quote(`| ${line}`.trimEnd());
    },
    get failures() {
      return failures;
    },
    leave() {
      left = true;
    },
  };
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(1, width - 1))}…`;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}
