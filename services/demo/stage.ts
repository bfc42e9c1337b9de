import { isDeepStrictEqual } from "node:util";
import type { LoggedEvent } from "../../shared/child-process/event-log.ts";
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

const WIDTH = 116;
const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const;

export function createStage({ print, colour }: { print: (line: string) => void; colour: boolean }): Stage {
  const styled = (style: keyof typeof STYLES, text: string) =>
    colour ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text;
  let scenes = 0;
  let failures = 0;
  let left = false;
  const put = (line: string): void => {
    if (!left) print(line);
  };
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
    log: (part, event) => put(`      ${styled("dim", trimmed(`${part.padEnd(8)} | ${eventLine(event)}`))}`),
    output(lines) {
      for (const line of lines) put(`      ${styled("dim", trimmed(`| ${line}`).trimEnd())}`);
    },
    get failures() {
      return failures;
    },
    leave() {
      left = true;
    },
  };
}

function trimmed(text: string): string {
  return text.length <= WIDTH ? text : `${text.slice(0, WIDTH - 1)}…`;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}
